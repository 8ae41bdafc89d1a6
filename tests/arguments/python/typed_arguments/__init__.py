"""Functions in Rust that take tensors of every framework, one for each kind of argument."""

from typed_arguments._native import *
