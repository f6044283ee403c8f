"""Caffe's message formats as tables; protobuf descriptors are built from them when a file is read.

A text file (prototxt) names its fields, so their numbers are arbitrary: fields are numbered as listed. A binary file
(caffemodel) is read only for names, types, and weights, whose numbers are Caffe's; all other fields remain unknown,
whatever a fork of Caffe defines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuc_importing.messages import Fields, message_classes

_WINDOW = "pad:i* kernel_size:i* stride:i* pad_h:i pad_w:i kernel_h:i kernel_w:i stride_h:i stride_w:i engine:Engine"
_FILLERS = "weight_filler:Filler bias_filler:Filler"

ENUMS: Mapping[str, str] = {
    "Phase": "TRAIN TEST",
    "Engine": "DEFAULT CAFFE CUDNN LIBDNN INTEL_SPATIAL FFT MKL2017 MKLDNN",
    "ShareMode": "STRICT PERMISSIVE",
    "VarianceNorm": "FAN_IN FAN_OUT AVERAGE",
    "EltwiseOp": "PROD SUM MAX MIN DIV SUB",
    "PoolMethod": "MAX AVE STOCHASTIC",
    "RoundMode": "CEIL FLOOR",
    "NormRegion": "ACROSS_CHANNELS WITHIN_CHANNEL",
    "ReductionOp": "- SUM ASUM SUMSQ MEAN",
    "CodeType": "- CORNER CENTER_SIZE CORNER_SIZE",
    "BnMode": "LEARN INFERENCE",
    "InterpMode": "- LINEAR AREA NEAREST CUBIC LANCZOS4",
    "ResizeMode": "- WARP FIT_SMALL_SIZE FIT_LARGE_SIZE_AND_PAD",
    "PadMode": "- CONSTANT MIRRORED REPEAT_NEAREST",
    "Database": "LEVELDB LMDB",
    "LossNormalization": "FULL VALID BATCH_SIZE NONE",
    "HingeNorm": "- L1 L2",
    "V1Type": "NONE ACCURACY BNLL CONCAT CONVOLUTION DATA DROPOUT EUCLIDEAN_LOSS FLATTEN HDF5_DATA HDF5_OUTPUT IM2COL "
    "IMAGE_DATA INFOGAIN_LOSS INNER_PRODUCT LRN MULTINOMIAL_LOGISTIC_LOSS POOLING RELU SIGMOID SOFTMAX SOFTMAX_LOSS "
    "SPLIT TANH WINDOW_DATA ELTWISE POWER SIGMOID_CROSS_ENTROPY_LOSS HINGE_LOSS MEMORY_DATA ARGMAX THRESHOLD "
    "DUMMY_DATA SLICE MVN ABSVAL SILENCE CONTRASTIVE_LOSS EXP DECONVOLUTION",
}
"""Enumeration values count from 0 in this order, which is Caffe's; `-` skips a number."""

PARAMETERS: Mapping[str, Fields] = {
    "accuracy_param": "top_k:i axis:i ignore_label:i",
    "argmax_param": "out_max_val:b top_k:i axis:i",
    "axpy_param": "",
    "batch_norm_param": "use_global_stats:b moving_average_fraction:f eps:f engine:Engine",
    "bias_param": "axis:i num_axes:i filler:Filler",
    "bn_param": "slope_filler:Filler bias_filler:Filler scale_filler:Filler shift_filler:Filler momentum:f eps:f "
    "frozen:b engine:Engine bn_mode:BnMode",
    "clip_param": "min:f max:f",
    "concat_param": "axis:i concat_dim:i",
    "continuation_indicator_param": "time_step:i batch_size:i",
    "contrastive_loss_param": "margin:f legacy_version:b",
    "convolution_param": f"num_output:i bias_term:b group:i dilation:i* axis:i force_nd_im2col:b {_WINDOW} {_FILLERS}",
    "crop_param": "axis:i offset:i*",
    "data_param": "source:s batch_size:i rand_skip:i backend:Database scale:f mean_file:s crop_size:i mirror:b "
    "force_encoded_color:b prefetch:i",
    "detection_output_param": "num_classes:i share_location:b background_label_id:i nms_param:Nms "
    "save_output_param:SaveOutput code_type:CodeType variance_encoded_in_target:b keep_top_k:i confidence_threshold:f "
    "visualize:b visualize_threshold:f save_file:s",
    "dropout_param": "dropout_ratio:f scale_train:b",
    "dummy_data_param": "data_filler:Filler* shape:BlobShape* num:i* channels:i* height:i* width:i*",
    "eltwise_param": "operation:EltwiseOp coeff:f* stable_prod_grad:b",
    "elu_param": "alpha:f",
    "embed_param": f"num_output:i input_dim:i bias_term:b {_FILLERS}",
    "exp_param": "base:f scale:f shift:f",
    "flatten_param": "axis:i end_axis:i",
    "frcn_detection_param": "nms_threshold:f obj_threshold:f keep_topk:i class_num:i",
    "hdf5_data_param": "source:s batch_size:i shuffle:b",
    "hdf5_output_param": "file_name:s",
    "hinge_loss_param": "norm:HingeNorm",
    "image_data_param": "source:s batch_size:i rand_skip:i shuffle:b new_height:i new_width:i is_color:b scale:f "
    "mean_file:s crop_size:i mirror:b root_folder:s",
    "infogain_loss_param": "source:s axis:i",
    "inner_product_param": f"num_output:i bias_term:b axis:i transpose:b {_FILLERS}",
    "input_param": "shape:BlobShape*",
    "interp_param": "height:i width:i zoom_factor:i shrink_factor:i pad_beg:i pad_end:i",
    "log_param": "base:f scale:f shift:f",
    "loss_param": "ignore_label:i normalization:LossNormalization normalize:b",
    "lrn_param": "local_size:i alpha:f beta:f norm_region:NormRegion k:f engine:Engine",
    "matmul_param": "transpose_a:b transpose_b:b dim_1:i dim_2:i dim_3:i blob_num:i",
    "memory_data_param": "batch_size:i channels:i height:i width:i",
    "mish_param": "engine:Engine",
    "mvn_param": "normalize_variance:b across_channels:b eps:f",
    "norm_param": "across_spatial:b scale_filler:Filler channel_shared:b eps:f",
    "normalize_bbox_param": "across_spatial:b scale_filler:Filler channel_shared:b eps:f",
    "padding_param": "pad_t:i pad_b:i pad_l:i pad_r:i pad_value:f",
    "parameter_param": "shape:BlobShape",
    "permute_param": "order:i*",
    "pooling_param": f"pool:PoolMethod global_pooling:b ceil_mode:b round_mode:RoundMode {_WINDOW}",
    "power_param": "power:f scale:f shift:f",
    "prelu_param": "filler:Filler channel_shared:b",
    "prior_box_param": "min_size:f* max_size:f* aspect_ratio:f* flip:b clip:b variance:f* img_size:i img_h:i img_w:i "
    "step:f step_h:f step_w:f offset:f",
    "proposal_param": "feat_stride:i base_size:i min_size:i ratio:f* scale:f* pre_nms_topn:i post_nms_topn:i "
    "nms_thresh:f anchor_base_size:i rpn_obj_threshold:f rpn_nms_threshold:f rpn_nms_post_top_n:i net_input_h:i "
    "net_input_w:i",
    "python_param": "module:s layer:s param_str:s share_in_parallel:b",
    "recurrent_param": f"num_output:i debug_info:b expose_hidden:b {_FILLERS}",
    "lstm_param": f"num_output:i clipping_threshold:f batch_size:i {_FILLERS}",
    "reduction_param": "operation:ReductionOp axis:i coeff:f",
    "relu_param": "negative_slope:f engine:Engine",
    "reorg_param": "stride:i reverse:b",
    "reshape_param": "shape:BlobShape axis:i num_axes:i",
    "retinaface_detection_param": "nms_threshold:f confidence_threshold:f keep_topk:i",
    "reverse_param": "axis:i",
    "roi_pooling_param": "pooled_h:i pooled_w:i spatial_scale:f",
    "scale_param": "axis:i num_axes:i bias_term:b filler:Filler bias_filler:Filler",
    "shuffle_channel_param": "group:i",
    "sigmoid_param": "engine:Engine",
    "slice_param": "axis:i slice_point:i* slice_dim:i",
    "softmax_param": "engine:Engine axis:i",
    "spp_param": "pyramid_height:i pool:PoolMethod engine:Engine",
    "swish_param": "beta:f engine:Engine",
    "tanh_param": "engine:Engine",
    "threshold_param": "threshold:f",
    "tile_param": "axis:i tiles:i",
    "transform_param": "scale:f mirror:b crop_size:i crop_h:i crop_w:i mean_file:s mean_value:f* force_color:b "
    "force_gray:b resize_param:Resize",
    "upsample_param": "scale:i scale_h:i scale_w:i stride:i stride_h:i stride_w:i upsample_h:i upsample_w:i "
    "pad_out_h:b pad_out_w:b",
    "window_data_param": "source:s scale:f mean_file:s batch_size:i crop_size:i mirror:b fg_threshold:f "
    "bg_threshold:f fg_fraction:f context_pad:i crop_mode:s cache_images:b root_folder:s",
    "yolo_detection_param": "net_input_h:i net_input_w:i nms_threshold:f obj_threshold:f keep_topk:i spp_net:b tiny:b "
    "class_num:i anchors:s yolo_v4:b",
}
"""Parameter groups of layers, each with its own message."""

_LAYER_PARAMETERS = " ".join(f"{name}:{name}" for name in PARAMETERS)

TEXT: Mapping[str, Fields] = {
    "BlobShape": "dim:i*",
    "Filler": "type:s value:f min:f max:f mean:f std:f sparse:i variance_norm:VarianceNorm file:s",
    "Nms": "nms_threshold:f top_k:i eta:f",
    "SaveOutput": "output_directory:s output_name_prefix:s output_format:s label_map_file:s name_size_file:s "
    "num_test_image:i resize_param:Resize",
    "Resize": "prob:f resize_mode:ResizeMode height:i width:i height_scale:i width_scale:i pad_mode:PadMode "
    "pad_value:f* interp_mode:InterpMode*",
    "NetState": "phase:Phase level:i stage:s*",
    "NetStateRule": "phase:Phase min_level:i max_level:i stage:s* not_stage:s*",
    "ParamSpec": "name:s share_mode:ShareMode lr_mult:f decay_mult:f",
    **PARAMETERS,
    "Layer": "name:s type:s bottom:s* top:s* phase:Phase loss_weight:f* param:ParamSpec* propagate_down:b* "
    f"include:NetStateRule* exclude:NetStateRule* {_LAYER_PARAMETERS}",
    "V0Layer": "name:s type:s num_output:i biasterm:b weight_filler:Filler bias_filler:Filler pad:i kernelsize:i "
    "group:i stride:i pool:PoolMethod dropout_ratio:f local_size:i alpha:f beta:f k:f source:s scale:f meanfile:s "
    "batchsize:i cropsize:i mirror:b blobs_lr:f* weight_decay:f* rand_skip:i concat_dim:i",
    "V1Layer": "layer:V0Layer name:s type:V1Type bottom:s* top:s* blobs_lr:f* weight_decay:f* loss_weight:f* param:s* "
    f"blob_share_mode:ShareMode* include:NetStateRule* exclude:NetStateRule* {_LAYER_PARAMETERS}",
    "Net": "name:s input:s* input_shape:BlobShape* input_dim:i* force_backward:b state:NetState debug_info:b "
    "layer:Layer* layers:V1Layer*",
}

WEIGHTS: Mapping[str, Fields] = {
    "BlobShape": "dim:i*=1",
    # Packed floats are read as bytes: one buffer, no object per number.
    "Blob": "num:i=1 channels:i=2 height:i=3 width:i=4 data:y*=5 shape:BlobShape=7 double_data:y*=8",
    "V0Layer": "name:s=1 type:s=2 blobs:Blob*=50",
    "V1Layer": "layer:V0Layer=1 name:s=4 type:i=5 blobs:Blob*=6",
    "Layer": "name:s=1 type:s=2 blobs:Blob*=7",
    "Net": "name:s=1 layers:V1Layer*=2 layer:Layer*=100",
}

UNPACKED: Mapping[str, Fields] = {
    **WEIGHTS,
    "Blob": WEIGHTS["Blob"].replace(":y*", ":d*").replace("data:d", "data:f", 1),
}
"""The format of files whose numbers were written one by one."""


def new_net(messages: Mapping[str, Fields]) -> Any:
    """Return an empty `Net` of one of the tables."""
    return message_classes("caffe", messages, ENUMS)["Net"]()
