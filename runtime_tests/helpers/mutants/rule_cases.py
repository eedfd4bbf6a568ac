"""Cases of the rules by which a mutant is wrong in nothing: words, a graph, what it stores, what is changed."""

from helpers.mutants.mutation import Mutation, attribute, constant, operator
from helpers.mutants.rules import NEVER_FIRES

BLOCKS = (
    "n = Shape(x) l = Squeeze(n) m = Add(l, c) b = Div(m, c) r = Range(z, b, o) e = Unsqueeze(b, v)"
    " s = Concat<axis = 0>(n, e) y, w = Split<axis = 0>(r, s)"
)
FARTHEST = (
    "n = Shape(x) l = Squeeze(n) d = Sub(l, f) m = Max(d, z) r = Reshape(m, v) s = Slice(x, r, e)"
    ' p = Concat<axis = 0>(r, v) y = Pad<mode = "edge">(s, p)'
)
BOUND = "int64 f = {9}, int64 z = {0}, int64[1] v = {-1}, int64[1] e = {9}"
REPEATED = "how many keys beyond the farthest bucket are left out and repeated by a Pad: of none, none"
COMPARED = "s = Shape<start = 0, end = 2>(x) m = Mul(s, c) y = Reshape(x, m)"
COUNTED = "s = Shape(x) l = Squeeze(s) r = Range(z, l, o) c = Less(r, z) y = Where(c, e, r)"
SENT = "int64 z = {0}, int64 o = {1}, int64 e = {8}"
MOVED = "an index out of range for another one, in the place of those"
REST, REST_STORED = "m = Mod(x, d) c = Equal(m, x) y = Where(c, m, e)", "int64 d = {8}, int64 e = {8}"
CLIP, CLIP_STORED = "c = Clip(x, l, e) y = Mod(c, f)", f"int64 l = {{-1}}, int64 e = {{8}}, int64 f = {{{2**30}}}"
TWICE = CLIP.replace("y =", "m =") + " d = Less(x, z) y = Where(d, e, x)"
ENDED, ENDED_STORED = "y = Slice(t, s, e, s)", "int64[2] t = {5, 6}, int64[1] s = {0}, int64[1] e = {2}"
RESHAPED = "int64[2] t = {5, 6}, int64[2] r = {1, 2}"
ZERO_ONE, WHOLE = "int64[2] c = {0, 1}", "double c = {6755399441055744.0}"
LAST = "the last term of a polynomial in float64, below the last digit of float32"
STORED = "int64 c = {64}, int64 z = {0}, int64 o = {1}, int64[1] v = {0}"
# fmt: off
CASES = [
    ("an axis counted from the other end", "y = Unsqueeze(x, a)", "int64[1] a = {1}", constant("a", "[1]", "[-1]")),
    ("", "y = Unsqueeze(x, a)", "int64[1] a = {1}", constant("a", "[1]", "[0]")),
    ("a vector of all that there is", "y = Reshape(x, a)", "int64[1] a = {-1}", constant("a", "[-1]", "[0]")),
    ("", "y = Reshape(x, a)", "int64[1] a = {-1}", constant("a", "[-1]", "[1]")),
    (
        "an end beyond every length",
        "y = Slice(x, s, e)",
        f"int64[1] s = {{0}}, int64[1] e = {{{2**63 - 1}}}",
        constant("e", str([2**63 - 1]), str([2**63 - 2])),
    ),
    ("", "y = Slice(x, s, e)", "int64[1] s = {0}, int64[1] e = {9}", constant("e", "[9]", "[8]")),
    ("an end beyond the axis", ENDED, ENDED_STORED, constant("e", "[2]", "[3]")),
    ("", ENDED, ENDED_STORED, constant("e", "[2]", "[1]")),
    ("a size that follows from the others", "y = Reshape(t, r)", RESHAPED, constant("r", "[1, 2]", "[1, -1]")),
    ("", "y = Reshape(x, r)", RESHAPED, constant("r", "[1, 2]", "[1, -1]")),
    ("a bound that another look-up of the same positions has", TWICE, CLIP_STORED + ", int64 z = {0}",
     constant("l", "-1", "0")),
    ("", TWICE.replace("Where(d, e, x)", "Identity(d)"), CLIP_STORED + ", int64 z = {0}", constant("l", "-1", "0")),
    (
        "an index out of range for another one",
        "c = Less(x, z) y = Where(c, e, x)",
        f"int64 z = {{0}}, int64 e = {{{2**62}}}",
        constant("e", str(2**62), str(-(2**62))),
    ),
    ("", "c = Less(x, z) y = Where(c, e, x)", "int64 z = {0}, int64 e = {8}", constant("e", "8", "-8")),
    (
        "places of keys that are moved alike with those of queries, which are looked up in them",
        "k = Add(x, b) s = Slice(k, o, e) t = Unsqueeze(s, o) q = Gather(t, i) y = Sub(s, q)",
        "int64 b = {-1}, int64[1] o = {1}, int64[1] e = {9}, int64 i = {3}",
        operator("k", "Add", "Sub"),
    ),
    (
        "",
        "k = Add(x, b) s = Slice(k, o, e) y = Sub(s, b)",
        "int64 b = {-1}, int64[1] o = {1}, int64[1] e = {9}",
        operator("k", "Add", "Sub"),
    ),
    (
        "an index out of range for another one",
        "c = Less(x, z) y = Where(c, e, x)",
        "int64 z = {0}, int64 e = {8}",
        constant("e", "8", "9"),
    ),
    ("", "c = Less(x, z) y = Where(c, e, x)", "int64 z = {0}, int64 e = {8}", constant("e", "8", "-8")),
    (
        "an index for negative positions, where they are counted from a mask",
        "s = CumSum(x, z) p = Clip(s, z) c = Less(p, z) y = Where(c, e, p)",
        "int64 z = {0}, int64 e = {8}",
        constant("e", "8", "-8"),
    ),
    ("an index for negative positions, where they are counted from 0", COUNTED, SENT, constant("e", "8", "-8")),
    ("", COUNTED.replace("Range(z, l, o)", "Range(z, x, o)"), SENT, constant("e", "8", "-8")),
    (MOVED, REST, REST_STORED, constant("d", "8", "9")),
    ("", REST, REST_STORED, constant("d", "8", "7")),
    ("", REST, REST_STORED, constant("d", "8", "-8")),
    (MOVED, REST, REST_STORED, constant("e", "8", "9")),
    ("", REST, REST_STORED, constant("e", "8", "7")),
    ("", REST.replace("Equal(m, x)", "Less(m, x)"), REST_STORED, constant("e", "8", "9")),
    ("", REST.replace("Mod(", "Mul("), REST_STORED, constant("d", "8", "9")),
    (
        "an index counted from the end",
        "y = Gather<axis = 0>(t, i)",
        "int64[2] t = {5, 6}, int64[1] i = {1}",
        constant("i", "[1]", "[-1]"),
    ),
    ("", "y = Gather<axis = 0>(t, i)", "int64[2] t = {5, 6}, int64[1] i = {1}", constant("i", "[1]", "[0]")),
    (
        "an index counted from the end",
        "y = Slice(t, b, e, a)",
        "int64[2] t = {5, 6}, int64[1] b = {0}, int64[1] e = {1}, int64[1] a = {0}",
        constant("e", "[1]", "[-1]"),
    ),
    (
        "",
        "y = Slice(t, b, e, a)",
        "int64[3] t = {5, 6, 7}, int64[1] b = {0}, int64[1] e = {1}, int64[1] a = {0}",
        constant("e", "[1]", "[-1]"),
    ),
    (
        "a size that is compared, too, and is alike",
        "s = Shape(x) l = Mul(s, c) y = Reshape(x, l)",
        "int64[1] c = {0}",
        constant("c", "[0]", "[1]"),
    ),
    (
        "how many blocks are made: what lies beyond the length is cut off",
        BLOCKS.replace("Div(m, c)", "Max(m, d)"),
        STORED + ", int64 d = {2}",
        constant("d", "2", "3"),
    ),
    ("", BLOCKS, STORED, constant("o", "1", "2")),
    (
        "a limit farther by less than one",
        "c = Greater(x, e) y = Where(c, z, x)",
        "int64 e = {8}, int64 z = {0}",
        constant("e", "8", "9"),
    ),
    ("", "c = Greater(x, e) y = Where(c, z, x)", "int64 e = {8}, int64 z = {0}", constant("e", "8", "10")),
    (LAST, "y = Div(x, c)", "double c = {20.0}", constant("c", "20.0", "-20.0")),
    ("", "y = Div(x, c)", "double c = {6.0}", constant("c", "6.0", "7.0")),
    (LAST, "d = Div(x, c) y = Sub(o, d)", "double c = {20.0}, double o = {1.0}", operator("y", "Sub", "Max")),
    (LAST, "d = Div(x, c) s = Sub(o, d) y = Mul(x, s)", "double c = {20.0}, double o = {1.0}",
     operator("y", what="taken out")),
    ("", "d = Div(x, c) s = Sub(o, d) y = Mul(x, s)", "double c = {20.0}, double o = {1.0}",
     operator("y", "Mul", "Div")),
    ("", "d = Div(x, c) y = Sub(o, d)", "float c = {20.0}, float o = {1.0}", operator("y", "Sub", "Max")),
    ("a vector of all that there is", "y = Reshape(x, a)", "int64[1] a = {-1}", operator("y", what="taken out")),
    ("", "y = Reshape(x, a)", "int64[2] a = {1, -1}", operator("y", what="taken out")),
    (
        "an index in wider integers",
        "p = Clip(x, z, e) y = Cast<to = 6>(p)",
        "int64 z = {0}, int64 e = {8}",
        operator("y", what="taken out"),
    ),
    ("", "p = Clip(x, z, e) y = Cast<to = 1>(p)", "int64 z = {0}, int64 e = {8}", operator("y", what="taken out")),
    ("", "y = Cast<to = 6>(x)", "", operator("y", what="taken out")),
    (
        "an index out of range for another one",
        "c = Less(x, z) d = Not(c) y = Where(d, e, x)",
        "int64 z = {0}, int64 e = {8}",
        constant("e", "8", "9"),
    ),
    (
        "allowzero, where no axis is empty",
        "s = Shape(x) y = Reshape<allowzero = 0>(x, s)",
        "",
        attribute("y", "allowzero=0", "allowzero=1"),
    ),
    ("fmod of what is not negative", "y = Mod<fmod = 0>(x, x)", "", attribute("y", "fmod=0", "fmod=1")),
    ("an axis counted from the other end", "y = Concat<axis = 0>(x, x)", "", attribute("y", "axis=0", "axis=-1")),
    ("a cut into one part", "y = Split<axis = 0, num_outputs = 1>(x)", "", operator("y", what="taken out")),
    ("", "s = Shape(x) y = Split<axis = 0>(x, s)", "", operator("y", what="taken out")),
    ("a size that a 0 takes out of a shape", COMPARED, ZERO_ONE, attribute("s", "start=0", "start=1")),
    ("", COMPARED, "int64[2] c = {2, 1}", attribute("s", "start=0", "start=1")),
    ("a size that is compared, too, and is alike", COMPARED, ZERO_ONE, operator("m", what="taken out")),
    ("a size that is compared, too, and is alike", COMPARED, ZERO_ONE, operator("m", "Mul", "Max")),
    ("", COMPARED, ZERO_ONE, operator("m", "Mul", "Add")),
    ("", COMPARED, "int64[2] c = {0, 2}", operator("m", what="taken out")),
    ("a sign that no distance of a call changes", "s = Gather(t, x) y = Mul(x, s)", "int64[2] t = {1, -1}",
     operator("y", what="taken out")),
    ("", "s = Gather(t, x) y = Mul(x, s)", "int64[2] t = {1, -2}", operator("y", what="taken out")),
    ("half way between two whole numbers: the other one", "a = Add(x, c) y = Sub(a, c)", WHOLE,
     constant("c", "6755399441055744.0", "6755399441055745.0")),
    ("", "a = Add(x, c) y = Sub(a, c)", WHOLE, constant("c", "6755399441055744.0", "6755399441055746.0")),
    ("", "a = Mul(x, c) y = Sub(a, c)", WHOLE, constant("c", "6755399441055744.0", "6755399441055745.0")),
    ("a number to round at, on the other side of 0", "a = Add(x, c) y = Sub(a, c)", WHOLE,
     constant("c", "6755399441055744.0", "-6755399441055744.0")),
    ("", "a = Mul(x, c) y = Sub(a, c)", WHOLE, constant("c", "6755399441055744.0", "-6755399441055744.0")),
    ("an end of Shape beyond the rank", "y = Shape<end = 1>(x)", "", attribute("y", "end=1", "end=2")),
    ("", "y = Shape<end = 1>(x)", "", attribute("y", "end=1", "end=0")),
    ("the sign of what Abs takes", "d = Sub(x, z) y = Abs(d)", "int64 z = {0}", operator("d", what="inputs exchanged")),
    ("", "d = Sub(x, z) y = Neg(d)", "int64 z = {0}", operator("d", what="inputs exchanged")),
    ("Abs of what is not negative", "y = Abs(x)", "", operator("y", what="taken out")),
    (
        "a quotient by 1 or -1 for a product",
        "s = Gather(t, x) y = Mul(x, s)",
        "int64[2] t = {1, -1}",
        operator("y", "Mul", "Div"),
    ),
    ("", "s = Gather(t, x) y = Mul(x, s)", "int64[2] t = {1, -2}", operator("y", "Mul", "Div")),
    (
        "sizes that changed place in a shape whose elements keep their order",
        "s = Shape(x) c = Concat<axis = 0>(s, s) y = Reshape(x, c)",
        "",
        operator("c", what="inputs exchanged"),
    ),
    (
        "a guard that what follows repeats",
        "s = Shape(x) g = Split(x, s) y = Expand(g, s)",
        "",
        operator("g", what="taken out"),
    ),
    ("a guard that what follows repeats", "s = Shape(x) m = Mul(s, c) g = Reshape(x, m) y = Reshape(g, s)",
     "int64[1] c = {1}", operator("g", what="taken out")),
    ("", "s = Shape(x) m = Mul(s, c) g = Reshape(x, m) y = Neg(g)", "int64[1] c = {1}",
     operator("g", what="taken out")),
    ("", "s = Shape(x) g = Split(x, s) y = Abs(g)", "", operator("g", what="taken out")),
    ("how many blocks are made: what lies beyond the length is cut off", BLOCKS, STORED, operator("b", "Div", "Max")),
    (
        "what is taken off whole circles, of less than one",
        "f = Floor(x) y = Sub(x, f)",
        "",
        operator("y", what="taken out"),
    ),
    ("a bound that nothing reaches", "y = Max(x, z)", "int64 z = {0}", operator("y", what="taken out")),
    (REPEATED, FARTHEST, BOUND, operator("m", "Max", "Mul")),
    ("", FARTHEST, BOUND.replace("z = {0}", "z = {1}"), operator("m", "Max", "Mul")),
    ("", FARTHEST, BOUND, operator("m", "Max", "Add")),
    ("", FARTHEST.replace("edge", "constant"), BOUND,
     operator("m", "Max", "Mul")),
    ("", FARTHEST.replace("(x, r, e)", "(x, v, e)"), BOUND,
     operator("m", "Max", "Mul")),
    (
        "conditions that are never both true, or always alike",
        "a = Less(x, z) b = Greater(x, z) c = Or(a, b) y = Where(c, x, z)",
        "int64 z = {0}",
        operator("c", "Or", "Xor"),
    ),
    (
        "a sign at 0, where both are 0",
        "a = Less(x, z) n = Neg(x) y = Where(a, n, x)",
        "int64 z = {0}",
        operator("a", "Less", "LessOrEqual"),
    ),
    ("", "a = Less(x, z) y = Where(a, z, x)", "int64 z = {0}", operator("a", "Less", "LessOrEqual")),
    (NEVER_FIRES, "m = Mul(x, b) h = Add(x, m) y = Relu(h)", "float[2] b = {-9, 1}",
     Mutation("rows and elements", "element moved", "b[0]")),
    ("", "h = Add(x, b) y = Neg(h)", "float[2] b = {-9, 1}", Mutation("rows and elements", "element moved", "b[0]")),
    (NEVER_FIRES, "h = Add(x, b) y = Relu(h)", "float[2] b = {-9, 1}",
     Mutation("rows and elements", "row zeroed", "b[0]")),
    (NEVER_FIRES, "h = Add(x, b) y = Relu(h)", "float[2] b = {-9, -8}",
     Mutation("rows and elements", "rows swapped", "b[1, 0]")),
    ("", "h = Add(x, b) y = Relu(h)", "float[2,2] b = {-9, 1, 2, 3}",
     Mutation("rows and elements", "row zeroed", "b[0]")),
    ("a remainder of what is below twice the divisor: an index counted from the end",
     "i = Mod(x, n) y = Gather(t, i)", "int64 n = {2}, int64[2] t = {5, 6}", operator("i", "Mod", "Sub")),
    ("", "i = Mod(x, n) y = Gather(t, i)", "int64 n = {2}, int64[3] t = {5, 6, 7}", operator("i", "Mod", "Sub")),
    ("", "y = Mul(x, x)", "", operator("y", "Mul", "Add")),
]
# fmt: on
