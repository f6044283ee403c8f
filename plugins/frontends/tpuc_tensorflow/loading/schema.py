"""The part of TensorFlow's message formats that networks use: tables of field numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tpuc_importing.messages import Fields, message_classes

from tpuc_tensorflow.dialects.types import NUMBERED

_NAMES: Mapping[int, str] = {
    1: "FLOAT",
    2: "DOUBLE",
    3: "INT32",
    4: "UINT8",
    5: "INT16",
    6: "INT8",
    7: "STRING",
    8: "COMPLEX64",
    9: "INT64",
    10: "BOOL",
    11: "QINT8",
    12: "QUINT8",
    13: "QINT32",
    14: "BFLOAT16",
    15: "QINT16",
    16: "QUINT16",
    17: "UINT16",
    18: "COMPLEX128",
    19: "HALF",
    20: "RESOURCE",
    21: "VARIANT",
    22: "UINT32",
    23: "UINT64",
}
_PLAIN = [f"DT_{_NAMES[number]}={number}" for number in NUMBERED]
_REFERENCES = [f"DT_{_NAMES[number]}_REF={number + 100}" for number in NUMBERED]

ENUMS: Mapping[str, str] = {"DataType": " ".join(("DT_INVALID=0", *_PLAIN, *_REFERENCES))}

MESSAGES: Mapping[str, Fields] = {
    "Dim": "size:i=1 name:s=2",
    "TensorShape": "dim:Dim*=2 unknown_rank:b=3",
    "Tensor": "dtype:DataType=1 tensor_shape:TensorShape=2 version_number:i=3 tensor_content:y=4 float_val:f*=5 "
    "double_val:d*=6 int_val:i*=7 string_val:y*=8 scomplex_val:f*=9 int64_val:i*=10 bool_val:b*=11 dcomplex_val:d*=12 "
    "half_val:i*=13 uint32_val:i*=16 uint64_val:i*=17",
    "NameAttrList": "name:s=1 attr:Attribute*=2",
    "ListValue": "s:y*=2 i:i*=3 f:f*=4 b:b*=5 type:DataType*=6 shape:TensorShape*=7 tensor:Tensor*=8 "
    "func:NameAttrList*=9",
    "AttrValue": "list:ListValue=1 s:y=2 i:i=3 f:f=4 b:b=5 type:DataType=6 shape:TensorShape=7 tensor:Tensor=8 "
    "placeholder:s=9 func:NameAttrList=10",
    "Attribute": "key:s=1 value:AttrValue=2",
    "Node": "name:s=1 op:s=2 input:s*=3 device:s=4 attr:Attribute*=5 experimental_debug_info:DebugInfo=6 "
    "experimental_type:FullType=7",
    "DebugInfo": "original_node_names:s*=1 original_func_names:s*=2",
    "FullType": "type_id:i=1",
    "Versions": "producer:i=1 min_consumer:i=2 bad_consumers:i*=3",
    "Argument": "name:s=1 description:s=2 type:DataType=3 type_attr:s=4 number_attr:s=5 type_list_attr:s=6 is_ref:b=16",
    "Operator": "name:s=1 input_arg:Argument*=2 output_arg:Argument*=3 attr:OperatorAttribute*=4 is_stateful:b=17 "
    "control_output:s*=20",
    "OperatorAttribute": "name:s=1 type:s=2",
    "Return": "key:s=1 value:s=2",
    "ArgumentAttributes": "attr:Attribute*=1",
    "ArgumentEntry": "key:i=1 value:ArgumentAttributes=2",
    "UniqueEntry": "key:i=1 value:i=2",
    "Function": "signature:Operator=1 node_def:Node*=3 ret:Return*=4 attr:Attribute*=5 control_ret:Return*=6 "
    "arg_attr:ArgumentEntry*=7 resource_arg_unique_id:UniqueEntry*=8",
    "Gradient": "function_name:s=1 gradient_func:s=2",
    "Library": "function:Function*=1 gradient:Gradient*=2",
    "Graph": "node:Node*=1 library:Library=2 version:i=3 versions:Versions=4",
    "TensorInfo": "name:s=1 dtype:DataType=2 tensor_shape:TensorShape=3",
    "TensorEntry": "key:s=1 value:TensorInfo=2",
    "Signature": "inputs:TensorEntry*=1 outputs:TensorEntry*=2 method_name:s=3",
    "SignatureEntry": "key:s=1 value:Signature=2",
    "MetaInfo": "meta_graph_version:s=1 tags:s*=4",
    "MetaGraph": "meta_info_def:MetaInfo=1 graph_def:Graph=2 signature_def:SignatureEntry*=5",
    "SavedModel": "saved_model_schema_version:i=1 meta_graphs:MetaGraph*=2",
    "BundleHeader": "num_shards:i=1 endianness:i=2 version:Versions=3",
    "BundleEntry": "dtype:DataType=1 shape:TensorShape=2 shard_id:i=3 offset:i=4 size:i=5 crc32c:x=6",
}


@functools.cache
def _classes() -> Mapping[str, Any]:
    return message_classes("tensorflow", MESSAGES, ENUMS)


def new_message(name: str) -> Any:
    """Return an empty message of the tables."""
    return _classes()[name]()
