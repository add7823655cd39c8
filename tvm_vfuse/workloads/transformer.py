"""BERT's encoder layer, and the whole of BERT-base."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import TensorSpec

VOCABULARY, SEGMENTS, LAYERS = 30522, 2, 12
EPSILON = 1e-12
"""LayerNorm's epsilon in BERT (Devlin et al., 2019, reference implementation)."""


def encoder_layer(ops: Ops, x: Value, mask: Value, heads: int, inner: int, name: str) -> Value:
    """One BERT encoder layer.

    Parameters
    ----------
    ops : Ops
        Operators.
    x : [batch, steps, hidden]
        Input.
    mask : [batch, 1, 1, steps]
        Added to the scores.
    heads, inner : int
        Attention heads and width of the feed-forward layer.
    name : str
        Prefix of the weights.

    Returns
    -------
    [batch, steps, hidden]
    """
    batch, steps, hidden = ops.shape(x)
    width = hidden // heads

    def per_head(y: Value) -> Value:
        return ops.transpose(ops.reshape(y, (batch, steps, heads, width)), (0, 2, 1, 3))

    query, key, value = (per_head(ops.dense(x, f"{name}_{part}", hidden)) for part in ("query", "key", "value"))
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
    attention = ops.softmax(ops.add(ops.mul(scores, 1.0 / math.sqrt(width)), mask))
    context = ops.reshape(ops.transpose(ops.matmul(attention, value), (0, 2, 1, 3)), (batch, steps, hidden))
    attended = ops.add(ops.dense(context, f"{name}_out", hidden), x)
    attended = ops.layer_norm(attended, *ops.scale_shift(f"{name}_norm1", hidden), EPSILON)
    forward = ops.dense(ops.gelu(ops.dense(attended, f"{name}_up", inner)), f"{name}_down", hidden)
    return ops.layer_norm(ops.add(forward, attended), *ops.scale_shift(f"{name}_norm2", hidden), EPSILON)


def _bert_layer(ops: Ops, sizes: Sizes, x: Value, mask: Value) -> Sequence[Value]:
    return (encoder_layer(ops, x, mask, sizes[2], sizes[3], "layer"),)


def _layer_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", (1, *sizes[:2])), TensorSpec("mask", (1, 1, 1, sizes[0]), "mask")]


def _heads_divide(sizes: Sizes) -> str | None:
    return f"{sizes[2]} heads do not divide the hidden width {sizes[1]}" if sizes[1] % sizes[2] else None


def _bert_base(ops: Ops, sizes: Sizes, tokens: Value, segments: Value, mask: Value) -> Sequence[Value]:
    _, steps = sizes
    hidden, heads, inner = 768, 12, 3072
    words = ops.take(ops.weight("word_embedding", (VOCABULARY, hidden), 0.02), tokens, axis=0)
    kinds = ops.take(ops.weight("segment_embedding", (SEGMENTS, hidden), 0.02), segments, axis=0)
    places = ops.weight("position_embedding", (1, steps, hidden), 0.02)
    x = ops.add(ops.add(words, kinds), places)
    x = ops.layer_norm(x, *ops.scale_shift("embedding_norm", hidden), EPSILON)
    for i in range(LAYERS):
        x = encoder_layer(ops, x, mask, heads, inner, f"layer{i}")
    first = ops.strided_slice(x, (1,), (0,), (1,), (1,))
    pooled = ops.tanh(ops.dense(ops.reshape(first, (sizes[0], hidden)), "pooler", hidden))
    return x, pooled


def _bert_inputs(sizes: Sizes) -> list[TensorSpec]:
    batch, steps = sizes
    return [
        TensorSpec("tokens", sizes, "index", "int64", high=VOCABULARY),
        TensorSpec("segments", sizes, "index", "int64", high=SEGMENTS),
        TensorSpec("mask", (batch, 1, 1, steps), "mask"),
    ]


TEMPLATES = (
    Template(
        "bert_layer",
        "BERT-base's encoder layer",
        ("steps", "hidden", "heads", "inner"),
        {"default": (128, 768, 12, 3072), "large": (128, 768, 12, 3072), "small": (32, 128, 2, 512)},
        _layer_inputs,
        _bert_layer,
        memory_bound=False,
        tags=("bench",),
        check=_heads_divide,
    ),
    Template(
        "bert_base_12",
        "BERT-base: embeddings, 12 encoder layers, pooler (110 million random weights)",
        ("batch", "steps"),
        {"default": (1, 128), "small": (1, 16)},
        _bert_inputs,
        _bert_base,
        memory_bound=False,
        tags=("network",),
    ),
)
