"""Replace ONNX ``If`` nodes whose condition is constant by the branch that is taken.

Rewrite
-------
``Constant(true) -> c; If(c){then: A}{else: B} -> y``  becomes  ``A -> y``, A's own names made unique.

Checks
------
The condition must follow from constants and static shapes; other Ifs stay.
"""

from __future__ import annotations

from typing import Any

from tvm_vfuse.frontend.onnx_constants import known_values


def fold_constant_ifs(model: Any) -> int:
    """Inline the taken branch of each If with a constant condition.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place; shapes inferred, as far as they can be.

    Returns
    -------
    int
        How many were folded.
    """
    graph = model.graph
    if not any(node.op_type == "If" for node in graph.node):
        return 0
    known = known_values(model)
    nodes, folded = [], 0
    for node in graph.node:
        if node.op_type == "If" and node.input[0] in known:
            taken = "then_branch" if bool(known[node.input[0]].reshape(-1)[0]) else "else_branch"
            branch = next(a.g for a in node.attribute if a.name == taken)
            nodes += _inlined(graph, node, branch, f"{node.output[0]}/{taken}/")
            folded += 1
        else:
            nodes.append(node)
    if folded:
        kept = [_copy(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    return folded


def _copy(node: Any) -> Any:
    from onnx import NodeProto

    duplicate = NodeProto()
    duplicate.CopyFrom(node)
    return duplicate


def _inlined(graph: Any, node: Any, branch: Any, prefix: str) -> list[Any]:
    """The branch's nodes under unique names, its initializers moved to `graph`, its results named as the If's."""
    from onnx import helper

    local = {out for n in branch.node for out in n.output if out} | {t.name for t in branch.initializer}
    results = [value.name for value in branch.output]
    names = {name: prefix + name for name in local}
    for tensor in branch.initializer:
        moved = graph.initializer.add()
        moved.CopyFrom(tensor)
        moved.name = names[tensor.name]
    inlined = [_renamed(_copy(n), names) for n in branch.node]
    ends = [
        helper.make_node("Identity", [names.get(inner, inner)], [outer])
        for inner, outer in zip(results, node.output, strict=True)
        if outer
    ]
    return inlined + ends


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """Rename what the node reads and writes, in its own subgraphs too."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _renamed(inner, names)
            for result in attribute.g.output:
                result.name = names.get(result.name, result.name)
    return node
