"""Detectors, with the ends that their packages export."""

from __future__ import annotations

from benchmarks.architectures.row import Architecture, drawn, image, transformers, ultralytics

DETECTION_FAMILY = "detection"
DETECTION: tuple[Architecture, ...] = (
    ultralytics("yolov3-tiny"),
    ultralytics("yolov5n"),
    ultralytics("yolov8n"),
    ultralytics("yolov9t"),
    ultralytics("yolov10n"),
    ultralytics("yolo11n"),
    ultralytics("yolo12n"),
    ultralytics("yolo26n"),
    ultralytics("yolov8n-cls", "classification, convolution"),
    ultralytics("yolov8n-seg", "segmentation"),
    ultralytics("yolo26n-seg", "segmentation"),
    ultralytics("yolov8n-pose", "pose"),
    ultralytics("yolo11n-pose", "pose"),
    ultralytics("yolov8n-obb", "detection"),
    drawn("ssdlite_head", DETECTION_FAMILY, "ssdlite_head", image(96)),
    drawn("retinanet_head", DETECTION_FAMILY, "retinanet_head", image(96)),
    drawn("fcos_head", DETECTION_FAMILY, "fcos_head", image(96)),
    drawn("centernet", DETECTION_FAMILY, "CenterNet", image(64)),
    transformers(
        "detr", DETECTION_FAMILY, "DetrForObjectDetection", image(64, name="pixel_values"), keeps=(0, 1),
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=10, use_timm_backbone=False, use_pretrained_backbone=False,
        backbone=None, backbone_config={"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32],
                         "depths": [1, 1], "layer_type": "basic", "out_features": ["stage2"]},
    ),
    transformers(
        "rt_detr", DETECTION_FAMILY, "RTDetrForObjectDetection", image(64, name="pixel_values"), keeps=(0, 1),
        selects=True, d_model=32, encoder_hidden_dim=32, encoder_in_channels=[32, 48, 64], encoder_ffn_dim=64,
        decoder_ffn_dim=64, decoder_layers=2, num_queries=20, encoder_attention_heads=4, decoder_attention_heads=4,
        decoder_in_channels=[32, 32, 32], eval_size=None, anchor_image_size=None,
        backbone_config={"model_type": "rt_detr_resnet", "embedding_size": 16, "hidden_sizes": [16, 32, 48, 64],
                         "depths": [1, 1, 1, 1], "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"]},
    ),
    transformers(
        "yolos", DETECTION_FAMILY, "YolosForObjectDetection", image(64, name="pixel_values"), keeps=(0, 1),
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=[64, 64],
        patch_size=16, num_detection_tokens=10,
    ),
)  # fmt: skip
"""Detectors, of ultralytics first."""
