"""Rewrites a binding block by its fusion plan: each group becomes one call of a Primitive function.

Before::

    lv  = R.call_tir(cls.exp, (x,), ...)
    lv1 = R.call_tir(cls.relu, (lv,), ...)
    lv2 = R.call_tir(cls.tanh, (lv,), ...)

After::

    def vfuse_0_exp_relu_tanh(x):  # Primitive, returns (lv1, lv2)
    call = cls.vfuse_0_exp_relu_tanh(x)
    lv1 = call[0]
    lv2 = call[1]

Known refusals of FuseTIR are avoided here: constants become parameters, names never are plain "fused", a value is
one parameter however often it is read, and shape symbols that no parameter defines are passed as a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Var

from tvm_vfuse.graph.region import Region
from tvm_vfuse.plan.model import FusionPlan, Group

PREFIX = "vfuse"
NAME_LENGTH = 48
AddFunction = Callable[[str, Group, relax.Function], tvm.ir.GlobalVar]


class BlockRewriter:
    """Rewrites one block.

    Parameters
    ----------
    add_function : adds a group's Primitive function to the module, under the given name or one like it
    """

    def __init__(self, region: Region, plan: FusionPlan, add_function: AddFunction) -> None:
        self.region, self.plan, self.add_function = region, plan, add_function
        self.expr_of = dict(region.expressions)
        self.fields: dict[tuple[Var, int], Var] = {}
        self.out: list[relax.Binding] = []
        self.needed = plan.kept_values()

    def run(self, block: relax.BindingBlock, live: set[Var]) -> relax.BindingBlock:
        """The new block: groups and lone operators in the plan's order, then the aliases that are ``live`` outside."""
        for g in self.plan.groups:
            if len(g.all_members) > 1:
                self._emit_group(g)
            else:
                self._emit_single(g.members[0])
        for b in block.bindings:
            if b.var in self.region.aliases and b.var in live:
                self.out.append(relax.VarBinding(b.var, self._subst(self.region.aliases[b.var])))
        return type(block)(self.out)

    # ------------------------------------------------------------------ operators that stay alone
    def _emit_single(self, index: int) -> None:
        """The operator as it was; a kernel whose every reader computes it again is left out."""
        op, binding = self.plan.graph.operators[index], self.region.bindings[index]
        if op.kind == "kernel" and not any(v in self.needed for v in op.outputs):
            return
        if isinstance(binding, relax.MatchCast):
            self.out.append(relax.MatchCast(binding.var, self._subst(binding.value), binding.ty))
        else:
            self.out.append(relax.VarBinding(binding.var, self._subst(binding.value)))

    def _subst(self, expr: tvm.ir.Expr) -> tvm.ir.Expr:
        """``expr`` with aliases replaced by what they stand for, and fields of grouped kernels by their variables."""

        def on_var(var: Var) -> tvm.ir.Expr:
            root = self.region.aliases.get(var, var)
            return var if root is var else self._subst(root)

        def on_field(item: tvm.ir.TupleGetItem) -> tvm.ir.Expr:
            whole = item.tuple_value
            return self.fields.get((whole, item.index), item) if isinstance(whole, Var) else item

        if isinstance(expr, Var):
            return on_var(expr)
        return tvm_ffi.structural_map(expr, [(Var, on_var), (tvm.ir.TupleGetItem, on_field)], order="post")

    # ------------------------------------------------------------------ groups
    def _emit_group(self, group: Group) -> None:
        """A call of the group's function in the place of its members."""
        graph = self.plan.graph
        members = group.all_members
        own = [v for i in group.members for v in graph.operators[i].outputs if v in self.needed]
        if not own:
            return
        inputs = list(graph.inputs_of(members))
        function = self._function(members, inputs, own)
        name = f"{PREFIX}_{_short([graph.operators[i].op for i in members])}"
        gv = self.add_function(name, group, function)
        args = [self.expr_of[v] for v in inputs]
        args = [self._subst(a) if isinstance(a, (Var, tvm.ir.TupleGetItem)) else a for a in args]
        symbols = self._loose_symbols(members, inputs)
        if symbols:
            args.append(relax.ShapeExpr(symbols))
        self._bind_outputs(relax.Call(gv, args), function.ret_ty, own)

    def _bind_outputs(self, call: tvm.ir.Call, ty: tvm.ir.Type, outputs: list[int]) -> None:
        if len(outputs) == 1:
            self._bind_value(outputs[0], call, ty)
        else:
            result = self._fresh(f"group{outputs[0]}", ty)
            self.out.append(relax.VarBinding(result, call))
            for number, v in enumerate(outputs):
                self._bind_value(v, tvm.ir.TupleGetItem(result, number), ty.fields[number])
        self._rebuild_tuples(outputs)

    def _bind_value(self, value: int, expr: tvm.ir.Expr, ty: tvm.ir.Type) -> None:
        """Binds the value's own variable, or a fresh one where it was a field of a tuple."""
        whole = self.region.expressions[value]
        var = whole if isinstance(whole, Var) else self._fresh(f"field{value}", ty)
        if isinstance(whole, tvm.ir.TupleGetItem):
            self.fields[(whole.tuple_value, whole.index)] = var
        self.out.append(relax.VarBinding(var, expr))
        self.expr_of[value] = var

    def _rebuild_tuples(self, outputs: list[int]) -> None:
        """A kernel with several outputs is bound as a tuple again, so that readers of the tuple stay right."""
        producers = dict.fromkeys(self.plan.graph.values[v].producer for v in outputs)
        for p in producers:
            assert p is not None
            made = self.plan.graph.operators[p].outputs
            is_tuple = not isinstance(self.region.expressions[made[0]], Var)
            if is_tuple and all(v in outputs for v in made):
                fields = tvm.ir.Tuple([self.expr_of[v] for v in made])
                self.out.append(relax.VarBinding(self.region.bindings[p].var, fields))

    def _fresh(self, name: str, ty: tvm.ir.Type) -> Var:
        dataflow = any(isinstance(b.var, relax.DataflowVar) for b in self.region.bindings)
        return relax.DataflowVar(name, ty) if dataflow else Var(name, ty)

    def _function(self, members: Sequence[int], inputs: list[int], outputs: list[int]) -> relax.Function:
        """The Primitive function of a group."""
        graph, region = self.plan.graph, self.region
        inner: dict[int, tvm.ir.Expr] = {}
        params = []
        for v in inputs:
            var = Var(_identifier(graph.values[v].name), _type_of(region, v))
            params.append(var)
            inner[v] = var
        symbols = self._loose_symbols(members, inputs)
        if symbols:
            params.append(Var("symbols", relax.ShapeType(symbols)))
        bindings: list[relax.Binding] = []
        for i in members:
            call, op = region.bindings[i].value, graph.operators[i]
            scalars = iter(region.scalars[i])
            tensors = iter(region.arguments[i])
            fields = [
                inner[next(tensors)] if not tvm.ir.is_prim_expr(f) else next(scalars) for f in call.args[1].fields
            ]
            new = relax.Call(call.op, [call.args[0], tvm.ir.Tuple(fields), *call.args[2:]], call.attrs, call.ty_args)
            var = relax.DataflowVar(_identifier(op.name), region.bindings[i].var.ty)
            bindings.append(relax.VarBinding(var, new))
            single = not isinstance(region.bindings[i].var.ty, tvm.ir.TupleType)
            for number, v in enumerate(op.outputs):
                if single:
                    inner[v] = var
                    continue
                field = relax.DataflowVar(f"{_identifier(op.name)}_{number}", region.bindings[i].var.ty.fields[number])
                bindings.append(relax.VarBinding(field, tvm.ir.TupleGetItem(var, number)))
                inner[v] = field
        fields = [inner[v] for v in outputs]
        ty = fields[0].ty if len(fields) == 1 else tvm.ir.TupleType([f.ty for f in fields])
        result = Var("result", ty)
        bindings.append(relax.VarBinding(result, fields[0] if len(fields) == 1 else tvm.ir.Tuple(fields)))
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
        return relax.Function(params, body, ty).with_attr("Primitive", True)

    def _loose_symbols(self, members: Sequence[int], inputs: list[int]) -> list[Var]:
        """Shape symbols the members use that no parameter's shape defines."""
        defined: dict[Var, None] = {}
        for v in inputs:
            for s in relax.analysis.definable_tir_vars_in_type(_type_of(self.region, v)):
                defined.setdefault(s)
        used: dict[Var, None] = {}
        for i in members:
            call = self.region.bindings[i].value
            for t in (*call.ty_args, *(_type_of(self.region, v) for v in self.plan.graph.operators[i].inputs)):
                for s in relax.analysis.tir_vars_in_type(t):
                    used.setdefault(s)
            for e in self.region.scalars[i]:
                for s in relax.analysis.tir_vars_in_type(relax.ShapeType([e])):
                    used.setdefault(s)
        return [s for s in used if s not in defined]


def _type_of(region: Region, value: int) -> tvm.ir.Type:
    t = region.tensors[value]
    return relax.TensorType(list(t.shape), t.dtype)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "v"


def _short(ops: Sequence[str]) -> str:
    """The operators' names joined, with repeats counted, not too long."""
    parts: list[str] = []
    for name in ops:
        clean = _identifier(name).removeprefix("tir_")
        if parts and parts[-1].split("*")[0] == clean:
            head, _, count = parts[-1].partition("*")
            parts[-1] = f"{head}*{int(count or 1) + 1}"
        else:
            parts.append(clean)
    text = "_".join(p.replace("*", "x") for p in parts)
    return text if len(text) <= NAME_LENGTH else f"{text[: NAME_LENGTH - 8]}_of{len(ops)}"
