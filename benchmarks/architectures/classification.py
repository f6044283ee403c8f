"""Image classifiers, convolutional and with attention."""

from __future__ import annotations

from benchmarks.architectures.row import Architecture, drawn, image, timm, torchvision, transformers

CONVOLUTION, ATTENTION = "classification, convolution", "classification, attention"


def convolutional() -> tuple[Architecture, ...]:
    """Networks of convolutions, most of them with few channels or layers."""
    return (
        torchvision("squeezenet1_1", CONVOLUTION),
        torchvision("shufflenet_v2_x0_5", CONVOLUTION),
        torchvision("mobilenet_v2", CONVOLUTION, width_mult=0.35),
        torchvision("mobilenet_v3_small", CONVOLUTION, width_mult=0.5),
        torchvision("mnasnet0_5", CONVOLUTION),
        drawn("alexnet", CONVOLUTION, "AlexNet", image(96)),
        drawn("vgg11_bn", CONVOLUTION, "VGG", image(96)),
        torchvision("googlenet", CONVOLUTION, aux_logits=False),
        torchvision("inception_v3", CONVOLUTION, side=80, aux_logits=False),
        torchvision("densenet", CONVOLUTION, function="DenseNet", growth_rate=8, block_config=(3, 3, 3, 3)),
        torchvision("resnext", CONVOLUTION, function="resnext_small"),
    )


def of_timm(family: str, *rows: Architecture) -> tuple[Architecture, ...]:
    """Rows with their family."""
    return tuple(Architecture(row.name, family, row.package, row.function, row.inputs, row.options) for row in rows)


CLASSIFICATION: tuple[Architecture, ...] = (
    *convolutional(),
    *of_timm(
        CONVOLUTION,
        timm("resnet10t"),
        timm("resnet18"),
        timm("resnet26d", layers=(1, 1, 1, 1)),
        timm("resnext50_32x4d", layers=(1, 1, 1, 1)),
        timm("seresnet18"),
        timm("skresnet18"),
        timm("resnest14d"),
        timm("res2net50_26w_4s", layers=(1, 1, 1, 1)),
        timm("regnetx_002"),
        timm("regnety_002"),
        timm("mobilenetv1_100", side=64),
        timm("mobilenetv2_035"),
        timm("mobilenetv3_small_050"),
        timm("mobilenetv3_large_075"),
        timm("mobilenetv4_conv_small_035"),
        timm("efficientnet_b0"),
        timm("efficientnet_lite0"),
        timm("efficientnetv2_rw_t", side=64),
        timm("tinynet_e"),
        timm("lcnet_050"),
        timm("fbnetc_100"),
        timm("hardcorenas_a"),
        timm("ghostnet_050"),
        timm("ghostnetv2_100"),
        timm("rexnet_100"),
        timm("repvgg_a0"),
        timm("mobileone_s0"),
        timm("repvit_m0_9"),
        timm("repghostnet_050"),
        timm("starnet_s1"),
        timm("hgnetv2_b0"),
        timm("dla46_c"),
        timm("hrnet_w18_small"),
        timm("cs3darknet_focus_s"),
        timm("ese_vovnet19b_dw"),
        timm("gernet_s"),
        timm("test_nfnet"),
        timm("convnext_atto", depths=(1, 1, 2, 1), dims=(16, 32, 64, 128)),
        timm("convnextv2_atto", depths=(1, 1, 2, 1), dims=(16, 32, 64, 128)),
        timm("inception_next_atto", side=64),
        timm("convmixer", model="convmixer.ConvMixer", dim=64, depth=3, kernel_size=7, patch_size=7),
        timm("mambaout_femto", depths=(1, 1, 2, 1), dims=(16, 32, 64, 96)),
        timm("mlp_mixer", model="mlp_mixer.MlpMixer", img_size=64, embed_dim=64, num_blocks=3),
        timm("resmlp_12_224", img_size=64),
        timm("gmlp_ti16_224", img_size=64),
        timm("poolformer_s12"),
    ),
    *of_timm(
        ATTENTION,
        timm("vit_tiny_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=3),
        timm("deit_tiny_distilled_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=3),
        timm("cait_xxs24_224", img_size=64, embed_dim=48, depth=2, num_heads=4),
        timm("beit_base_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=4),
        timm("eva02_tiny_patch14_224", side=56, img_size=56, embed_dim=48, depth=2, num_heads=4),
        timm("swin_tiny_patch4_window7_224", side=56, img_size=56, embed_dim=24, depths=(2, 2), num_heads=(2, 4)),
        timm("swinv2_tiny_window8_256", img_size=64, embed_dim=24, depths=(2, 2), num_heads=(2, 4)),
        timm("levit_128s", side=224, embed_dim=(32, 48, 64), num_heads=(2, 3, 4), depth=(1, 1, 1), key_dim=16),
        timm("mobilevit_xxs"),
        timm("mobilevitv2_050"),
        timm("mobilenetv4_hybrid_medium", side=64),
        timm("efficientformer_l1", side=224),
        timm("efficientformerv2_s0", side=224),
        timm("fastvit_t8", side=64),
        timm("edgenext_xx_small", side=64),
        timm("efficientvit_b0", side=64),
        timm("efficientvit_m0", side=224),
        timm("tiny_vit_5m_224", side=224),
        timm("pvt_v2_b0", side=64),
        timm("twins_pcpvt", model="twins.Twins", img_size=64, embed_dims=(16, 32, 48, 64), depths=(1, 1, 1, 1)),
        timm("twins_svt", model="twins.Twins", img_size=64, embed_dims=(16, 32, 48, 64), depths=(2,) * 4, wss=(7,) * 4),
        timm("pit_ti_224", side=224),
        timm("crossvit_9_240", side=240),
        timm("coat_lite_tiny", side=64, img_size=64),
        timm("convit_tiny", side=64, img_size=64, embed_dim=12, depth=3, num_heads=4),
        timm("visformer_tiny", side=64, img_size=64),
        timm("xcit_nano_12_p16_224", side=64, img_size=64, depth=2),
        timm("coatnet_nano_rw_224", side=64, img_size=64),
        timm("maxvit_pico_rw_256", side=64, img_size=64),
        timm("davit_tiny", side=64, depths=(1, 1), embed_dims=(24, 48), num_heads=(2, 4)),
        timm("gcvit_xxtiny", side=64, img_size=64),
        timm("focalnet", model="focalnet.FocalNet", embed_dim=24, depths=(1, 1, 1, 1)),
        timm("hiera", side=64, model="hiera.Hiera", img_size=(64, 64), embed_dim=24, stages=(1, 1, 2, 1)),
        timm("test_vit", side=64, img_size=64),
        timm("nest", model="nest.Nest", img_size=64, embed_dims=(16, 32, 48), num_heads=(2, 2, 4), depths=(1, 1, 2)),
        timm("sequencer2d_s", side=64, layers=(1, 1, 1, 1)),
    ),
    transformers(
        "dinov2", ATTENTION, "Dinov2Model", image(56, name="pixel_values"),
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=56, patch_size=14,
    ),
    transformers(
        "siglip_vision", ATTENTION, "SiglipVisionModel", image(64, name="pixel_values"), keeps=(0, 1),
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=64, patch_size=16,
    ),
    transformers(
        "clip_vision", ATTENTION, "CLIPVisionModelWithProjection", image(64, name="pixel_values"),
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=64, patch_size=16,
        projection_dim=32,
    ),
)  # fmt: skip
"""Classifiers; rows of timm before those of transformers."""
