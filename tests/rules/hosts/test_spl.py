"""SPL: placement clauses, pools in all their forms, whole programs, fusion, and where an error stands."""

import pytest

from pipeline.errors import BadInput
from rules.hosts import clauses, program
from rules.hosts.job import read
from rules.hosts.model import Host, Placement, Pool


def placement(text):
    return clauses.placement(text, "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('host("foo.watson.ibm.com")', Host(name="foo.watson.ibm.com")),
        ('host("10.4.40.83")', Host(name="10.4.40.83")),
        ("host(MyPool)", Host(pool="MyPool")),
        ("host(MyPool[5])", Host(pool="MyPool", index=5)),
        ("host( MyPool [ 5u ] )", Host(pool="MyPool", index=5)),
    ],
)
def test_the_variants_of_host(text, expected):
    assert placement(text) == Placement(hosts=(expected,))


def test_every_clause_at_once_over_several_lines_with_comments():
    text = """config placement : hostColocation("a"), hostExlocation("b"), // why
        /* and
           more */ hostIsolation, partitionColocation("c"), partitionExlocation("d"),
        partitionIsolation, hostColocation("\\"quoted\\""), hostColocation("a");"""
    assert placement(text) == Placement(
        colocations=("a", '"quoted"'),
        exlocations=("b",),
        isolated=True,
        partition_colocations=("c",),
        partition_exlocations=("d",),
        partition_isolated=True,
    )
    assert placement("") == Placement()


TAGS = ("ib", "blue")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('createPool({size=10u, tags=["ib","blue"]}, Sys.Shared)', Pool("P", size=10, tags=TAGS)),
        ('createPool({size=10u, tags=["ib","blue"]}, Sys.Exclusive)', Pool("P", size=10, tags=TAGS, exclusive=True)),
        ("createPool({size=10u}, Sys.Shared)", Pool("P", size=10)),
        ("createPool({size=10u}, Sys.Exclusive)", Pool("P", size=10, exclusive=True)),
        ('createPool({tags=["ib","blue"]}, Sys.Shared)', Pool("P", tags=TAGS)),
        ("createPool(Sys.Shared)", Pool("P")),
        ('["foo", "bar"]', Pool("P", hosts=("foo", "bar"))),
        ('["10.8.5.6", "10.8.5.7"]', Pool("P", hosts=("10.8.5.6", "10.8.5.7"))),
    ],
)
def test_the_forms_of_pools(text, expected):
    assert clauses.pool("P", text, "here") == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("hostColocation(together)", "line 1, column 16: expected a string, not 'together'"),
        ('hostColocation("a") hostIsolation', "line 1, column 21: expected ',' or the end"),
        ('hostIsolation,\n  hostTogether("a")', "line 2, column 3: expected one of host, hostColocation"),
        ('host("a', "line 1, column 6: a string is not closed"),
        ("host(P[x])", "line 1, column 8: expected a whole number"),
        ("host(P[1.5])", "line 1, column 8: expected a whole number"),
        ("hostIsolation, /* no end", "line 1, column 16: a comment is not closed"),
        ("hostIsolation,", "line 1, column 15: expected one of host, hostColocation"),
        ("host(P[0]", "line 1, column 10: expected ')', not the end"),
    ],
)
def test_an_error_in_a_clause_names_line_and_column(text, where):
    with pytest.raises(BadInput) as caught:
        placement(text)
    assert str(caught.value).startswith(f"here: {where}")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "line 1, column 1: a pool of no hosts"),
        ("createPool({size=0u}, Sys.Shared)", "line 1, column 18: a pool of size 0"),
        ("createPool({size=1u, size=2u}, Sys.Shared)", "line 1, column 22: a second size"),
        ('createPool({tags=["1a"]}, Sys.Shared)', "line 1, column 18: tag '1a'"),
        ("createPool(Sys.Mine)", "line 1, column 16: expected Shared or Exclusive"),
        ("createPool({colour=1}, Sys.Shared)", "line 1, column 13: expected size or tags"),
        ('["a"] x', "line 1, column 7: expected the end"),
    ],
)
def test_an_error_in_a_pool_names_line_and_column(text, where):
    with pytest.raises(BadInput) as caught:
        clauses.pool("P", text, "here")
    assert str(caught.value).startswith(f"here: {where}")


SIX = """
namespace demo.spl;
use com.example::*;
public composite Main(output Out) {
  param expression<rstring> $name : "x";
  type Data = tuple<list<rstring> names, uint64 num>;
  graph
    @view(name = "v", port = Source)
    stream<list<rstring> names> Source = com.example::Beacon() {
      logic state : { mutable int32 config = 0; }
      param period : 0.1; iterations : 10u;
      output Source : names = ["a", "}"];
      config threadedPort : queue(Source, Sys.Wait); placement : host(P2[3]), hostColocation("a");
    }
    (stream<Data> Left; stream<Data> Right) as Split = Functor(Source) { }
    () as Sink = Custom(Left, Right) {
      logic onTuple Left : { println("config placement: nothing;"); }
      config placement : hostIsolation;
             restartable : true;
    }
  config hostPool:
    P1=createPool({size=10u, tags=["ib","blue"]}, Sys.Shared), //sized, tagged, shared
    P2=createPool({size=10u, tags=["ib","blue"]}, Sys.Exclusive), //sized, tagged, exclusive
    P4=createPool({size=10u}, Sys.Shared),
    P5=createPool({size=10u}, Sys.Exclusive),
    P3=createPool({tags=["ib","blue"]}, Sys.Shared),
    P6=createPool(Sys.Shared);
}
"""


def test_a_whole_program():
    operators, pools = program.read(SIX, "here")
    assert [each.name for each in operators] == ["Source", "Split", "Sink"]
    source, split, sink = (each.placement for each in operators)
    assert source == Placement(hosts=(Host(pool="P2", index=3),), colocations=("a",))
    assert split == Placement()
    assert sink == Placement(isolated=True)
    assert list(pools) == ["P1", "P2", "P4", "P5", "P3", "P6"]
    assert [(each.size, each.tags, each.exclusive) for each in pools.values()] == [
        (10, TAGS, False), (10, TAGS, True), (10, (), False), (10, (), True), (None, TAGS, False), (None, (), False),
    ]  # fmt: skip


NESTED = """
composite Work(input In; output Out) {
  graph
    stream<T> Out = Functor(In) { config placement: hostExlocation("x"); }
    () as Log = Custom(In) { config placement: host("n2"); }
  config placement: hostColocation("inner");
}
composite Main {
  graph
    stream<T> Source = Beacon() { }
    stream<T> Comp = Work(Source) { config placement: host("n1"), partitionColocation("p"); }
    stream<T> Comp2 = Work(Source) { }
}
"""


def test_composites_are_opened_and_hand_their_placement_on():
    operators, _ = program.read(NESTED, "here")
    found = {each.name: each.placement for each in operators}
    assert list(found) == ["Source", "Comp.Out", "Comp.Log", "Comp2.Out", "Comp2.Log"]
    assert found["Comp.Out"] == Placement(
        hosts=(Host(name="n1"),), colocations=("inner",), exlocations=("x",), partition_colocations=("p",)
    )
    assert found["Comp.Log"].hosts == (Host(name="n2"),), "what is named nearer"
    assert found["Comp2.Out"].hosts == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("composite A { graph () as X = Op() { config placement: hostIsolation }", "line 1, column 70: expected ';'"),
        ("composite A { graph\n () = Op() {}\n}", "line 2, column 2: an operator without output needs a name"),
        ("composite A { graph\n @parallel(width=3)() as X = Op() {}\n}", "line 2, column 2: @parallel is not opened"),
        ("composite A { graph () as X = B() {} }\ncomposite B { graph () as Y = A(){} }", "line 2, column 11: which"),
        ("composite A { graph () as X = Op(){} () as X = Op(){} }", "line 1, column 11: two operators of the name X"),
        ("composite A { graph () as X = Op() {", "line 1, column 36: the operator is not closed"),
        ("composite A { stream<T> X = Op() {} }", "line 1, column 15: expected one of param, type, graph, config"),
        ("composite A {", "line 1, column 13: composite A is not closed"),
        ("composite A { graph oops }", "line 1, column 21: expected an operator"),
        ("", "line 1, column 1: no operators"),
        (
            "composite B { graph () as Y = Op() {} config hostPool: P = [\"a\"]; }\n"
            "composite A { graph () as X = B() {} }",
            "line 1, column 46: composite B is not the main one",
        ),
    ],
)  # fmt: skip
def test_an_error_in_a_program_names_line_and_column(text, where):
    with pytest.raises(BadInput) as caught:
        program.read(text, "here")
    assert str(caught.value).startswith(f"here: {where}")


def test_a_composite_that_holds_itself_is_an_error_and_no_endless_loop():
    text = "composite Main { graph () as X = A() {} }\ncomposite A { graph () as Y = A() {} }"
    with pytest.raises(BadInput, match="line 2, column 11: composite A holds itself"):
        program.read(text, "here")


def _operator(name, *tokens):
    placed = ", ".join(f'partitionColocation("{token}")' for token in tokens)
    return f"() as {name} = Op() {{ {f'config placement: {placed};' if placed else ''} }}"


def test_operators_that_share_a_partition_token_directly_or_over_others_are_one_pe():
    spl = "\n".join(
        [_operator("A", "p"), _operator("B"), _operator("C", "q"), _operator("D", "p", "q"), _operator("E", "r")]
    )
    job = read({"job": "ex", "spl": spl}, "job.yaml")
    assert [pe.names for pe in job.pes] == [("A", "C", "D"), ("B",), ("E",)]
    assert [pe.id for pe in job.pes] == [0, 1, 2]


def test_pes_of_the_job_win_and_take_placements_from_the_spl():
    spl = 'stream<T> A = Op() { config placement: hostColocation("t"), partitionColocation("p"); }\n'
    spl += 'stream<T> B = Op() { config placement: partitionColocation("p"); }'
    pes = [{"id": "x", "operators": [{"name": "A"}]}, {"id": "y", "operators": [{"name": "B", "placement": ""}]}]
    job = read({"job": "ex", "spl": spl, "pes": pes}, "job.yaml")
    assert [(pe.id, pe.names, pe.colocations) for pe in job.pes] == [("x", ("A",), ("t",)), ("y", ("B",), ())]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"job": "ex"}, "job.yaml: pes: missing, and no spl either"),
        ({"job": "two words", "pes": []}, "job.yaml: job: 'two words' cannot be a label's value"),
        ({"job": "ex", "namespace": "A_b", "pes": []}, "job.yaml: namespace: 'A_b'"),
        ({"job": "ex", "scope": "cluster", "pes": []}, "job.yaml: scope: 'cluster' is not one of job, token"),
        ({"job": "ex", "pez": []}, "job.yaml: Object contains unknown field `pez`"),
        ({"job": "ex", "pes": [{"id": 0}, {"id": "0"}]}, "job.yaml: pes[1].id: '0' stands twice"),
        (
            {"job": "ex", "pes": [{"id": 0, "operators": [{"name": "A", "placement": "host(Nope)"}]}]},
            "job.yaml: pes[0]: operator A: host(Nope): no such pool",
        ),
        (
            {"job": "ex", "pes": [{"id": 0, "operators": [{"name": "A", "placement": "hostIsolatio"}]}]},
            "job.yaml: pes[0].operators[0].placement: line 1, column 1: expected one of",
        ),
        (
            {"job": "ex", "pes": [{"id": 0, "operators": [{"name": "A"}]}, {"id": 1, "operators": [{"name": "A"}]}]},
            "job.yaml: pes[1]: operator A is in PE 0 too",
        ),
        ({"job": "ex", "hostPools": {"P": "createPool("}, "pes": []}, "job.yaml: hostPools.P: line 1, column 12"),
        ({"job": "ex", "spl": "() as A = Op() {}", "pes": []}, "job.yaml: pes: none holds operator A of the spl"),
        ({"job": "ex", "pes": [{"id": 0, "template": {"spec": {"affinity": 3}}}]}, "pes[0].template"),
        ([], "job.yaml: Expected `object`"),
    ],
)
def test_a_job_that_cannot_be_read_is_one_line_that_names_the_field(document, said):
    with pytest.raises(BadInput) as caught:
        read(document, "job.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("last", ["() as Z = F() {}", ""])
def test_a_short_text_of_too_many_operators_is_an_error(last):
    """Forty composites, each of which invokes the next one twice."""
    text = "".join(
        f"composite C{at} {{ graph () as A = C{at + 1}() {{}} () as B = C{at + 1}() {{}} }}\n" for at in range(40)
    )
    with pytest.raises(BadInput, match=r"spl: line 1, column 11: composite C0 holds more than 20000 operators"):
        program.read(f"{text} composite C40 {{ graph {last} }}", "spl")


def test_a_text_longer_than_any_program_is_an_error():
    with pytest.raises(BadInput, match=r"^spl: longer than 1048576 characters$"):
        program.read(1024 * 1024 * "(" + ")", "spl")
