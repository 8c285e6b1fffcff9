import itertools

import networkx as nx
import numpy as np
import pytest
from gies import utils as gies_utils
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdcd import graphs
from sdcd.errors import InputError

# Examples must not vary from run to run, nor fail when the machine is slow.
steady = settings(deadline=None, derandomize=True)


def matrices(max_d=7, elements=(0, 0, 1)):
    shape = st.integers(0, max_d).map(lambda d: (d, d))
    return hnp.arrays(np.int8, shape, elements=st.sampled_from(elements))


@st.composite
def dags(draw, max_d=7):
    A = draw(matrices(max_d))
    order = draw(st.permutations(range(len(A))))
    return np.triu(A, 1)[np.ix_(order, order)]


@st.composite
def weighted(draw, max_d=7):
    # Few distinct values, so that ties are common.
    shape = draw(st.integers(1, max_d).map(lambda d: (d, d)))
    levels = st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.25, 0.5, 1.0, 2.0])
    return draw(hnp.arrays(np.float64, shape, elements=levels))


def networkx_acyclic(A):
    return nx.is_directed_acyclic_graph(nx.from_numpy_array(A != 0, create_using=nx.DiGraph))


def v_structures(A):
    """All (a, c, b) with a -> c <- b directed, a and b not adjacent, a < b."""
    skeleton = (A + A.T) != 0
    directed = (A != 0) & (A.T == 0)
    return {
        (a, c, b)
        for c in range(len(A))
        for a, b in itertools.combinations(np.flatnonzero(directed[:, c]), 2)
        if not skeleton[a, b]
    }


def all_dags(d):
    pairs = list(itertools.combinations(range(d), 2))
    for states in itertools.product(range(3), repeat=len(pairs)):
        A = np.zeros((d, d), dtype=np.int8)
        for (i, j), state in zip(pairs, states, strict=True):
            if state:
                A[(i, j) if state == 1 else (j, i)] = 1
        if networkx_acyclic(A):
            yield A


class TestAcyclic:
    @steady
    @given(matrices())
    def test_agrees_with_networkx(self, A):
        assert graphs.is_acyclic(A) == networkx_acyclic(A)

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, np.float64])
    def test_self_loop_and_undirected_edge_are_cycles(self, dtype):
        empty = np.zeros((3, 3), dtype=dtype)
        assert graphs.is_acyclic(empty)
        loop, pair = empty.copy(), empty.copy()
        loop[1, 1] = pair[0, 1] = pair[1, 0] = 1
        assert not graphs.is_acyclic(loop)
        assert not graphs.is_acyclic(pair)

    def test_negative_weights_are_edges(self):
        assert not graphs.is_acyclic(np.array([[0, -0.5], [0.5, 0]]))

    def test_one_long_cycle(self):
        A = np.eye(3000, k=1, dtype=np.int8)
        assert graphs.is_acyclic(A)
        A[-1, 0] = 1
        assert not graphs.is_acyclic(A)

    def test_complete_dag(self):
        assert graphs.is_acyclic(np.triu(np.ones((400, 400)), 1))

    def test_shape(self):
        with pytest.raises(InputError, match=r"\(2, 3\)"):
            graphs.is_acyclic(np.zeros((2, 3)))


class TestTopologicalOrder:
    @steady
    @given(dags())
    def test_parents_first_smallest_first(self, A):
        graph = nx.from_numpy_array(A, create_using=nx.DiGraph)
        expected = list(nx.lexicographical_topological_sort(graph))
        assert graphs.topological_order(A).tolist() == expected

    def test_cycle_is_refused(self):
        with pytest.raises(InputError, match="cycle"):
            graphs.topological_order(np.array([[0, 1], [1, 0]]))


class TestSmallestDagThreshold:
    @steady
    @given(weighted())
    def test_smallest_among_all_candidates(self, W):
        candidates = [0.0, *np.unique(W)]
        expected = min(t for t in candidates if networkx_acyclic(np.greater(W, t)))
        assert graphs.smallest_dag_threshold(W) == expected
        assert graphs.smallest_dag_threshold(-W) == expected

    @steady
    @given(weighted(), st.sampled_from([0.5, 4.0]))
    def test_scales_with_the_weights(self, W, factor):
        assert graphs.smallest_dag_threshold(factor * W) == factor * graphs.smallest_dag_threshold(
            W
        )

    def test_dense_matrix(self):
        # More edges than a DAG can have; one cycle of weight 0.75 decides.
        W = np.full((50, 50), 0.5)
        W[np.arange(50), (np.arange(50) + 1) % 50] = 0.75
        assert graphs.smallest_dag_threshold(W) == 0.75
        W[49, 0] = 0.625
        assert graphs.smallest_dag_threshold(W) == 0.625

    def test_dag_and_empty(self):
        assert graphs.smallest_dag_threshold(np.triu(np.ones((4, 4)), 1)) == 0.0
        assert graphs.smallest_dag_threshold(np.zeros((0, 0))) == 0.0

    def test_above_ten(self):
        assert graphs.smallest_dag_threshold(np.array([[0, 30.0], [20.0, 0]])) == 20.0

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, bad):
        with pytest.raises(InputError, match=r"\(1, 0\)"):
            graphs.smallest_dag_threshold(np.array([[0, 1], [bad, 0]]))


def trim_one_by_one(W, threshold):
    """The definition: try each edge in order, with a search over the whole graph."""
    d = len(W)
    edges = sorted(
        ((i, j) for i in range(d) for j in range(d) if W[i, j] >= threshold and W[i, j] > 0),
        key=lambda edge: (-W[edge], edge),
    )
    graph = nx.DiGraph()
    graph.add_nodes_from(range(d))
    for i, j in edges:
        if not nx.has_path(graph, j, i):
            graph.add_edge(i, j)
    return nx.to_numpy_array(graph, dtype=np.int8, nodelist=range(d))


class TestDagTrim:
    @steady
    @given(weighted(), st.sampled_from([0.0, 0.2, 0.25, 0.6]))
    def test_agrees_with_the_definition(self, W, threshold):
        np.testing.assert_array_equal(graphs.dag_trim(W, threshold), trim_one_by_one(W, threshold))

    @pytest.mark.parametrize("compiled", [False, True])
    def test_agrees_with_the_definition_on_larger_graphs(self, compiled):
        insert = graphs._insert_edges_compiled() if compiled else graphs._insert_edges
        rng = np.random.default_rng(0)
        for d, density in [(30, 1.0), (60, 0.1), (120, 0.03)]:
            W = rng.random((d, d)) * (rng.random((d, d)) < density)
            expected = trim_one_by_one(W, 0.0)
            parents, children = np.unravel_index(np.argsort(-W, axis=None), W.shape)
            positive = W[parents, children] > 0
            parents, children = parents[positive], children[positive]
            kept = insert(parents, children, d)
            A = np.zeros_like(expected)
            A[parents[kept], children[kept]] = 1
            np.testing.assert_array_equal(A, expected)

    def test_edge_list_in_any_order(self):
        rng = np.random.default_rng(1)
        W = np.round(rng.random((40, 40)), 1)
        parents, children = np.nonzero(W >= 0)
        shuffled = rng.permutation(len(parents))
        parents, children = parents[shuffled], children[shuffled]
        kept = graphs.dag_trim_edges(parents, children, W[parents, children], 40, 0.3)
        A = np.zeros((40, 40), dtype=np.int8)
        A[parents[kept], children[kept]] = 1
        np.testing.assert_array_equal(A, graphs.dag_trim(W, 0.3))

    def test_threshold_is_inclusive_and_ties_go_by_row(self):
        W = np.array([[9.0, 0.1, 0], [0.1, 0, 0.0999], [0, 0, 0]])
        np.testing.assert_array_equal(graphs.dag_trim(W, 0.1), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])

    def test_large_graph_without_a_matrix(self):
        rng = np.random.default_rng(2)
        d, m = 20_000, 200_000
        parents, children = rng.integers(0, d, (2, m))
        weights = rng.random(m)
        kept = graphs.dag_trim_edges(parents, children, weights, d, 0.5)
        assert not kept[weights < 0.5].any()
        graph = nx.DiGraph(zip(parents[kept], children[kept], strict=True))
        assert nx.is_directed_acyclic_graph(graph)
        # Every edge left out closes a cycle with the ones kept.
        left_out = np.flatnonzero(~kept & (weights >= 0.5))[:30]
        for e in left_out:
            assert parents[e] == children[e] or nx.has_path(graph, children[e], parents[e])

    @pytest.mark.parametrize(
        ("parents", "children", "weights", "message"),
        [
            ([0, 1], [1], [1.0], "one length"),
            ([0], [3], [1.0], "0 to 2"),
            ([-1], [2], [1.0], "0 to 2"),
            ([0], [1], [np.nan], "finite"),
        ],
    )
    def test_bad_edges(self, parents, children, weights, message):
        with pytest.raises(InputError, match=message):
            graphs.dag_trim_edges(parents, children, weights, 3, 0.1)


class TestCpdag:
    @pytest.mark.parametrize("d", [1, 2, 3, 4])
    def test_agrees_with_enumeration_of_equivalence_classes(self, d):
        # Same skeleton and v-structures (Verma and Pearl): one class, whose CPDAG is its union.
        classes = {}
        for A in all_dags(d):
            key = ((A + A.T).tobytes(), frozenset(v_structures(A)))
            classes.setdefault(key, []).append(A)
        assert len(classes) == {1: 1, 2: 2, 3: 11, 4: 185}[d]  # OEIS A007984
        for members in classes.values():
            union = np.any(members, axis=0).astype(np.int8)
            for A in members:
                np.testing.assert_array_equal(graphs.dag_to_cpdag(A), union)
            np.testing.assert_array_equal(graphs.pdag_to_cpdag(union), union)

    @steady
    @given(dags(max_d=9))
    def test_agrees_with_gies(self, A):
        np.testing.assert_array_equal(
            graphs.dag_to_cpdag(A), gies_utils.dag_to_cpdag(A.astype(int))
        )

    def test_hand_worked(self):
        chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
        np.testing.assert_array_equal(graphs.dag_to_cpdag(chain), chain | chain.T)
        collider = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]])
        np.testing.assert_array_equal(graphs.dag_to_cpdag(collider), collider)

    def test_dense_large_graph(self):
        # A complete DAG has no v-structure.
        A = np.triu(np.ones((150, 150), dtype=np.int8), 1)
        np.testing.assert_array_equal(graphs.dag_to_cpdag(A), A | A.T)

    def test_cycle_is_refused(self):
        with pytest.raises(InputError, match="cycle"):
            graphs.dag_to_cpdag(np.array([[0, 1], [1, 0]]))


class TestPdag:
    @steady
    @given(matrices(max_d=6, elements=(0, 0, 0, 1, 1)))
    def test_extension_agrees_with_gies(self, A):
        np.fill_diagonal(A, 0)
        extension = graphs.consistent_extension(A)
        try:
            gies_utils.pdag_to_dag(A.astype(int))
        except ValueError:
            assert extension is None
            np.testing.assert_array_equal(graphs.pdag_to_cpdag(A), A)
        else:
            assert gies_utils.is_consistent_extension(extension.astype(int), A.astype(int))
            np.testing.assert_array_equal(
                graphs.pdag_to_cpdag(A), gies_utils.pdag_to_cpdag(A.astype(int))
            )

    @steady
    @given(dags(max_d=7), st.data())
    def test_interventional_essential_graph_gives_the_cpdag_of_its_dag(self, A, data):
        # An I-essential graph directs more edges than the CPDAG of the DAGs that it stands for.
        if not len(A):
            return
        targets = data.draw(st.sets(st.integers(0, len(A) - 1)))
        essential = gies_utils.replace_unprotected(
            A.astype(int), [[], *([target] for target in targets)]
        )
        np.testing.assert_array_equal(graphs.pdag_to_cpdag(essential), graphs.dag_to_cpdag(A))

    @steady
    @given(dags())
    def test_a_dag_is_its_own_extension(self, A):
        np.testing.assert_array_equal(graphs.consistent_extension(A), A)

    @pytest.mark.parametrize(
        "A",
        [
            [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
            [[1, 1], [0, 0]],
            # An undirected square has no chord: any direction makes a cycle or a v-structure.
            [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]],
        ],
    )
    def test_no_extension_keeps_its_own_entries(self, A):
        assert graphs.consistent_extension(np.array(A)) is None
        np.testing.assert_array_equal(graphs.pdag_to_cpdag(np.array(A) * 0.5), A)


@steady
@given(matrices(), st.integers(0, 3))
def test_a_list_of_edges_is_acyclic_if_its_matrix_is(A, isolated):
    parents, children = np.nonzero(A)
    order = np.random.default_rng(0).permutation(len(parents))
    d = len(A) + isolated
    assert graphs.edges_acyclic(parents[order], children[order], d) == networkx_acyclic(A)
