from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelAvailability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_AVAILABILITY_UNSPECIFIED: _ClassVar[ModelAvailability]
    MODEL_AVAILABILITY_AVAILABLE: _ClassVar[ModelAvailability]
    MODEL_AVAILABILITY_KEY_MISSING: _ClassVar[ModelAvailability]
    MODEL_AVAILABILITY_NOT_INSTALLED: _ClassVar[ModelAvailability]
MODEL_AVAILABILITY_UNSPECIFIED: ModelAvailability
MODEL_AVAILABILITY_AVAILABLE: ModelAvailability
MODEL_AVAILABILITY_KEY_MISSING: ModelAvailability
MODEL_AVAILABILITY_NOT_INSTALLED: ModelAvailability

class ModelPrices(_message.Message):
    __slots__ = ("input_micros", "output_micros", "cached_input_micros")
    INPUT_MICROS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MICROS_FIELD_NUMBER: _ClassVar[int]
    CACHED_INPUT_MICROS_FIELD_NUMBER: _ClassVar[int]
    input_micros: int
    output_micros: int
    cached_input_micros: int
    def __init__(self, input_micros: _Optional[int] = ..., output_micros: _Optional[int] = ..., cached_input_micros: _Optional[int] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "provider", "is_default", "context_window", "max_output_tokens", "takes_tools", "takes_thinking_level", "prices", "availability", "unavailable_reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TAKES_TOOLS_FIELD_NUMBER: _ClassVar[int]
    TAKES_THINKING_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRICES_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    provider: str
    is_default: bool
    context_window: int
    max_output_tokens: int
    takes_tools: bool
    takes_thinking_level: bool
    prices: ModelPrices
    availability: ModelAvailability
    unavailable_reason: str
    def __init__(self, name: _Optional[str] = ..., provider: _Optional[str] = ..., is_default: _Optional[bool] = ..., context_window: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., takes_tools: _Optional[bool] = ..., takes_thinking_level: _Optional[bool] = ..., prices: _Optional[_Union[ModelPrices, _Mapping]] = ..., availability: _Optional[_Union[ModelAvailability, str]] = ..., unavailable_reason: _Optional[str] = ...) -> None: ...
