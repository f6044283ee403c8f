"""Networks from picture to picture: segmentation, depth, restoration, generators; and readers of text lines."""

from __future__ import annotations

from benchmarks.architectures.row import DYNAMO, Architecture, Input, drawn, image, torchvision, transformers

SEGMENTATION, RESTORATION, GENERATIVE, OCR = "segmentation", "restoration", "generative decoder", "OCR"

IMAGES: tuple[Architecture, ...] = (
    torchvision("deeplabv3_mobilenet_v3_large", SEGMENTATION, weights_backbone=None),
    torchvision("lraspp_mobilenet_v3_large", SEGMENTATION, weights_backbone=None),
    torchvision("fcn_resnet", SEGMENTATION, function="fcn_small"),
    drawn("unet", SEGMENTATION, "UNet", image(64)),
    drawn("unet_bilinear", SEGMENTATION, "UNet", image(64), bilinear=True),
    drawn("pidnet_like_pyramid", SEGMENTATION, "PyramidPooling", image(64)),
    transformers(
        "segformer", SEGMENTATION, "SegformerForSemanticSegmentation", image(64, name="pixel_values"),
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32,
    ),
    transformers(
        "upernet_convnext", SEGMENTATION, "UperNetForSemanticSegmentation", image(64, name="pixel_values"),
        exporters=DYNAMO,
        hidden_size=32, use_auxiliary_head=False, num_labels=5,
        backbone_config={"model_type": "convnext", "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
                         "out_features": ["stage1", "stage2", "stage3", "stage4"]},
    ),
    transformers(
        "mobilevit_deeplab", SEGMENTATION, "MobileViTForSemanticSegmentation", image(64, name="pixel_values"),
        hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 80], num_labels=5, image_size=64,
        aspp_out_channels=32,
    ),
    transformers(
        "dpt", "depth", "DPTForDepthEstimation", image(64, name="pixel_values"),
        hidden_size=48, num_hidden_layers=4, num_attention_heads=4, intermediate_size=96, image_size=64, patch_size=16,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 24], fusion_hidden_size=16, is_hybrid=False,
    ),
    transformers(
        "depth_anything", "depth", "DepthAnythingForDepthEstimation", image(56, name="pixel_values"),
        patch_size=14, reassemble_hidden_size=48, neck_hidden_sizes=[8, 16, 24, 24], fusion_hidden_size=16,
        head_hidden_size=8,
        backbone_config={"model_type": "dinov2", "hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
                         "image_size": 56, "patch_size": 14, "reshape_hidden_states": False,
                         "out_features": ["stage1", "stage2", "stage3", "stage4"]},
    ),
    drawn("srcnn", RESTORATION, "SRCNN", image(32, 1)),
    drawn("espcn", RESTORATION, "ESPCN", image(32, 1)),
    drawn("fsrcnn", RESTORATION, "FSRCNN", image(32, 1)),
    drawn("edsr", RESTORATION, "EDSR", image(32)),
    drawn("rfdn_like", RESTORATION, "Distillation", image(32)),
    drawn("dncnn", RESTORATION, "DnCNN", image(32, 1)),
    drawn("nafnet", RESTORATION, "NAFNet", image(32)),
    drawn("style_transfer", RESTORATION, "StyleTransfer", image(64)),
    transformers(
        "swin2sr", RESTORATION, "Swin2SRForImageSuperResolution", image(32, name="pixel_values"),
        embed_dim=24, depths=[2], num_heads=[2], window_size=8, image_size=32, upscale=2,
    ),
    drawn("vae_decoder", GENERATIVE, "VaeDecoder", Input("latent", (1, 4, 8, 8))),
    drawn("dcgan_generator", GENERATIVE, "Generator", Input("noise", (1, 32, 1, 1))),
    drawn("mlp_vae_decoder", GENERATIVE, "MlpDecoder", Input("latent", (1, 16))),
    drawn("diffusion_unet", GENERATIVE, "DiffusionUNet", image(16, 4), Input("step", (1, 32))),
    drawn("crnn", OCR, "CRNN", Input("line", (1, 1, 32, 96))),
    drawn("crnn_gru", OCR, "CRNN", Input("line", (1, 1, 32, 96)), cell="GRU"),
    drawn("svtr_like", OCR, "SVTR", Input("line", (1, 3, 32, 96))),
    drawn("db_detector", OCR, "DBNet", image(64)),
    transformers(
        "trocr_encoder", OCR, "DeiTModel", image(64, name="pixel_values"),
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=64, patch_size=16,
    ),
)  # fmt: skip
"""By family."""
