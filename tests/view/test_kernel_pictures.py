"""Pictures of kernels: they count right, say what they show, come out the same twice, and answer bad input."""

import io
import re
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

import kernels
from andrea_lab.view.accesses import steps
from andrea_lab.view.cells import Cells, ramps
from andrea_lab.view.kernel_pictures import thread_map, timeline, traffic_bars
from kernels.layernorm import k_layernorm_fwd

MOST_BYTES = 25_000


@dataclass(frozen=True)
class Event:
    time: int
    line: int
    what: str
    array: str
    lanes: tuple
    indices: tuple
    space: str = "global"


@dataclass(frozen=True)
class Trace:
    events: tuple
    lines: dict
    threads: tuple = tuple(range(32))


@dataclass(frozen=True)
class ArrayTraffic:
    space: str
    reads: int = 0
    writes: int = 0
    atomics: int = 0
    sectors: int = 0
    best_sectors: int = 0
    bank_cycles: int = 0
    best_bank_cycles: int = 0


@dataclass(frozen=True)
class Traffic:
    arrays: dict


LANES = tuple(range(32))


def trace_of(*events, lines=None):
    """A trace of (line, what, array, lanes, indices, space) in order."""
    made = tuple(Event(time, *event) for time, event in enumerate(events))
    return Trace(made, lines or {event.line: f"line {event.line} of the kernel" for event in made})


def down(columns=64):
    """Each lane reads its own row: the accesses lie a row apart."""
    return trace_of(*((5, "read", "inp", LANES, tuple(lane * 64 + j for lane in LANES)) for j in range(columns)))


def along(row=0):
    """The lanes read neighbours of one row."""
    cells = [tuple(row * 64 + start + lane for lane in LANES) for start in (0, 32)]
    return trace_of(*((7, "read", "inp", LANES, at) for at in cells))


def tree():
    """The sum of 32 numbers in shared memory."""
    events = [(9, "write", "sums", LANES, LANES, "shared"), (10, "barrier", "", LANES, (), "")]
    half = 16
    while half:
        low = tuple(range(half))
        events.append((14, "read", "sums", low, low, "shared"))
        events.append((14, "read", "sums", low, tuple(n + half for n in low), "shared"))
        events.append((14, "write", "sums", low, low, "shared"))
        events.append((15, "barrier", "", LANES, (), ""))
        half //= 2
    return trace_of(*events)


def pixels(shown):
    """The colours of a picture's pixels, (height, width, 3)."""
    return np.array(Image.open(io.BytesIO(shown.png)).convert("RGB")).astype(int)


def share_of(shown, colour, reach=12):
    """How many pixels have about this colour."""
    return int((abs(pixels(shown) - colour).max(-1) <= reach).sum())


GREY = (198, 198, 198)


def test_a_strided_read_is_told_from_a_coalesced_one():
    shown = thread_map({"down": down(), "along": along()}, "inp", (32, 64))
    assert "down, first read: 32 elements, 32 sectors, 12.5 % used" in repr(shown)
    assert "along, first read: 32 elements, 4 sectors, 100 % used" in repr(shown)
    wasted, dense = (share_of(thread_map(trace, "inp", (32, 64)), GREY) for trace in (down(), along()))
    assert wasted > 32 * 7 * 3 * 3 + dense  # seven grey cells of more than 3 x 3 pixels in each of 32 rows


@pytest.mark.parametrize("pad, cycles", [(0, "32 bank cycles"), (1, "1 bank cycle")])
def test_bank_conflicts_are_counted_and_drawn(pad, cycles):
    column = trace_of((3, "read", "tile", LANES, tuple(n * (32 + pad) for n in LANES), "shared"))
    shown = thread_map(column, "tile", (32, 32 + pad))
    assert f"32 elements, {cycles}." in repr(shown)
    assert (share_of(shown, (213, 94, 0)) > 0) == (pad == 0)


def test_every_lane_has_its_colour_and_several_traces_have_hues():
    one, two = ramps(1), ramps(2)
    assert one.shape == (1, 32, 3) and len(np.unique(one[0], axis=0)) == 32
    assert two.shape == (2, 32, 3) and not (two[0] == two[1]).all()
    shown = thread_map(trace_of((1, "read", "x", LANES, LANES)), "x", (2, 32))
    assert all(share_of(shown, colour, reach=10) >= 60 for colour in one[0])


def test_the_lowest_lane_is_seen_and_the_others_are_counted():
    step = steps("t", [trace_of((1, "read", "x", (5, 2, 9), (7, 7, 1)))], "x")
    cells = Cells(step, ((0, 1), (0, 8)), 8, ramps(1), 4, True)
    assert cells.owners[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 2]
    assert cells.lowest[0, 7] == 2 and (cells.colour[0, 7] == ramps(1)[0, 2]).all()
    assert (cells.colour[0, 0] == GREY).all()  # came with its sector


def test_reads_are_told_from_writes():
    read, write = (trace_of((1, what, "x", LANES, LANES)) for what in ("read", "write"))
    assert thread_map(read, "x", 32).png != thread_map(write, "x", 32).png
    both = trace_of((1, "read", "x", LANES, LANES), (2, "write", "x", LANES, LANES))
    assert "first read" in repr(thread_map(both, "x", (4, 8))) and "first write" in repr(thread_map(both, "x", (4, 8)))
    assert repr(thread_map(both, "x", (4, 8), what="write")).count("first") == 1


def test_one_line_can_be_asked_for():
    both = trace_of((1, "read", "x", LANES, LANES), (2, "read", "x", (0,), (3,)), lines={1: "a = x[i]", 2: "b = x[3]"})
    assert "1 element" in repr(thread_map(both, "x", (4, 8), line="b ="))
    assert thread_map(both, "x", (4, 8), line=2).png == thread_map(both, "x", (4, 8), line="b =").png


def test_all_accesses_can_be_asked_for_alone():
    assert repr(thread_map(down(), "inp", (32, 64), count=0)).endswith("inp: 64 reads by the warp.]")
    assert repr(thread_map(tree(), "sums", (4, 8), count=0)).endswith("sums: 6 writes and 10 reads by the warp.]")


def test_the_first_access_can_be_asked_for_alone():
    first = trace_of((7, "read", "inp", LANES, LANES))
    assert thread_map(along(), "inp", (32, 64), whole=False).png == thread_map(first, "inp", (32, 64)).png


def test_the_tree_says_how_many_lanes_work():
    assert "16 accesses by 32, 16, 16, 16, 8, 8, 8, 4, 4, 4, 2, 2 … lanes" in repr(thread_map(tree(), "sums", 32))
    assert "16 accesses, 6 barriers, on average 7.81 of 32 lanes at work" in repr(timeline(tree()))


def test_idle_lanes_are_white_and_barriers_are_lines():
    busy = trace_of((1, "read", "x", LANES, LANES), (2, "barrier", "", LANES, (), ""))
    lonely = trace_of((1, "read", "x", (0,), (0,)), (2, "barrier", "", LANES, (), ""))
    blue = (0, 114, 178)
    assert share_of(timeline(busy), blue) > share_of(timeline(lonely), blue) + 31 * 5 * 20


def test_each_row_of_a_panel_says_which_lanes_touch_it():
    said = {words for *_, words in thread_map({"down": down(), "along": along()}, "inp", (32, 64)).regions}
    assert {
        "down, read 1, row 3: column 0 by lane 3",
        "down, all together, row 3: columns 0 to 63 by lane 3",
        "along, read 1, row 0: columns 0 to 31 by lanes 0 to 31",
        "along, all together, row 0: columns 0 to 31 by lanes 0 to 31; columns 32 to 63 by lanes 0 to 31",
        "along, read 1, row 1: nobody",
    } <= said


def test_several_lanes_and_several_traces_are_told_apart():
    both = trace_of((1, "read", "x", LANES, (*range(31), 30)))
    assert "read 1, row 0: columns 0 to 7 by lanes 0 to 7" in [r[4] for r in thread_map(both, "x", (4, 8)).regions]
    assert "read 1, row 3: columns 0 to 5 by lanes 24 to 29; column 6 by several lanes" in [
        r[4] for r in thread_map(both, "x", (4, 8)).regions
    ]
    two = [trace_of((1, "read", "x", LANES[:4], tuple(n + at for n in range(4)))) for at in (0, 4)]
    found = thread_map([Trace(t.events, t.lines) for t in two], "x", (2, 8)).regions[0][4]
    assert (
        found == "read 1, row 0: columns 0 to 3 by lanes 0 to 3 of block 0; columns 4 to 7 by lanes 0 to 3 of block 0"
    )
    strided = trace_of((1, "read", "x", LANES[:6], (0, 2, 4, 6, 8, 10)))
    (strip,) = [region[4] for region in thread_map(strided, "x", 32).regions]
    assert strip == (
        "read on line 1: element 0 by lane 0; element 2 by lane 1; element 4 by lane 2; element 6 by lane 3; and 2 more"
    )


def test_each_column_of_the_timeline_says_what_the_lanes_do():
    events = (5, "read", "inp", LANES, tuple(lane * 64 for lane in LANES)), (6, "barrier", "", LANES[:20], (), "")
    shown = timeline(trace_of(*events, (7, "atomic", "sums", (3,), (1024,), "shared")))
    assert [region[4] for region in shown.regions] == [
        "read of inp, global, lanes 0, 1, 2 … 31, elements 0, 64, 128 … 1,984; line 5: line 5 of the kernel",
        "barrier, 20 of 32 lanes come; line 6: line 6 of the kernel",
        "atomic of sums, shared, lane 3, elements 1,024; line 7: line 7 of the kernel",
    ]
    assert all(x0 < x1 <= 840 for x0, _, x1, _, _ in shown.regions)
    long = timeline(trace_of(*((n % 3 + 1, "read", "x", LANES, LANES) for n in range(3000))))
    more = [int(found[1]) for *_, words in long.regions if (found := re.search(r"then (\d+) more$", words))]
    assert sum(region[4].count("read of x") for region in long.regions) + sum(more) == 3000


def test_a_barrier_some_lanes_miss_is_red():
    red = (213, 94, 0)
    met = trace_of((1, "read", "x", LANES, LANES), (2, "barrier", "", LANES, (), ""))
    missed = trace_of((1, "read", "x", LANES, LANES), (2, "barrier", "", LANES[:20], (), ""))
    assert share_of(timeline(met), red) == 0 < share_of(timeline(missed), red)


def test_a_long_trace_keeps_its_size():
    accesses = [(n % 3 + 1, "read", "x", LANES, LANES) for n in range(3000)]
    long = trace_of(*accesses[:2000], (4, "barrier", "", LANES, (), ""), *accesses[2000:])
    assert "3,000 accesses, 1 barrier" in repr(timeline(long))
    assert pixels(timeline(long)).shape[1] == 840
    assert len(thread_map(long, "x", 32).png) < MOST_BYTES


@pytest.mark.parametrize("shape", [1024, (32, 32), (4, 8, 32), (1, 1024), (1024, 1), (2, 2, 2, 128)])
def test_any_shape_can_be_drawn(shape):
    spread = trace_of((1, "read", "x", LANES, tuple(n * 33 % 1024 for n in LANES)), (2, "atomic", "x", LANES, LANES))
    shown = thread_map([spread, spread], "x", shape)
    image = Image.open(io.BytesIO(shown.png))
    assert image.size[0] == 840 and image.size[1] < 1000 and len(shown.png) < MOST_BYTES


def test_traffic_says_what_is_moved_and_what_would_do():
    shown = traffic_bars({"naive": TRAFFIC, "tiled": DENSE})
    assert repr(shown) == (
        "[Traffic of global memory: naive, 2,048 reads, 32 atomics in 2,048 sectors of 32 bytes (ideal 256); "
        "tiled, 512 reads in 64 sectors of 32 bytes (ideal 64).]"
    )
    assert "in 96 bank cycles (ideal 32)" in repr(traffic_bars({"naive": TRAFFIC}, space="shared"))
    assert "512 reads in 64 sectors" in repr(traffic_bars({"tiled": DENSE}, arrays=["inp"]))


def test_traffic_far_apart_is_drawn_on_a_logarithmic_axis():
    large = Traffic({"inp": ArrayTraffic("global", reads=10**6, writes=3, sectors=10**6, best_sectors=10)})
    assert len(traffic_bars({"large": large, "none": Traffic({})}).png) < MOST_BYTES


def test_a_kernel_is_drawn_as_it_ran():
    rows, columns = 4, 40
    inp, out = np.ones((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    row = (np.ones(columns, np.float32), np.zeros(columns, np.float32), out, *np.zeros((2, rows), np.float32))
    args = (inp, *row, columns, np.float32(1e-5))
    traces = [kernels.trace(k_layernorm_fwd, block=n)[rows, 32](*args) for n in range(2)]
    assert "first read: 64 elements, 8 sectors, 100 % used" in repr(thread_map(traces, "inp"))
    assert "of 32 lanes at work" in repr(timeline(traces[0]))
    report = kernels.check(k_layernorm_fwd, orders=0)[rows, 32](*args)
    assert f"{3 * rows * columns} reads" in repr(traffic_bars({"ours": report}, arrays=["inp"]))


def test_local_arrays_are_left_out_unless_wanted():
    both = trace_of((1, "read", "x", LANES, LANES), (2, "read", "acc", LANES, LANES, "local"))
    assert "1 access," in repr(timeline(both)) and "2 accesses," in repr(timeline(both, local=True))


def test_a_small_block_uses_all_colours():
    small = trace_of((1, "read", "x", LANES[:8], LANES[:8]))
    small = Trace(small.events, small.lines, LANES[:8])
    shown = thread_map(small, "x", (2, 8))
    assert all(share_of(shown, colour, reach=10) >= 60 for colour in ramps(1, 8)[0])


def test_a_picture_takes_words_and_its_bytes_repeat():
    draw = [
        lambda: thread_map({"down": down(), "along": [along(), along(1)]}, "inp", (32, 64), "Two ways."),
        lambda: thread_map(tree(), "sums", (32,), "Two ways."),
        lambda: timeline({"down": down(), "tree": tree()}, "Two ways."),
        lambda: traffic_bars({"naive": TRAFFIC, "tiled": DENSE}, words="Two ways."),
    ]
    for make in draw:
        first, second = make(), make()
        assert first.png == second.png and repr(first) == "[Two ways.]" and len(first.png) < MOST_BYTES


EMPTY = Trace((), {})
TRAFFIC = Traffic(
    {
        "inp": ArrayTraffic("global", reads=2048, atomics=32, sectors=2048, best_sectors=256),
        "sums": ArrayTraffic("shared", reads=64, writes=32, bank_cycles=96, best_bank_cycles=32),
    }
)
DENSE = Traffic({"inp": ArrayTraffic("global", reads=512, sectors=64, best_sectors=64)})


@pytest.mark.parametrize(
    "draw, words",
    [
        (lambda: thread_map(tree(), "inpp", 32), "thread_map: array 'inpp' is not in the trace, found sums"),
        (lambda: thread_map({"a": tree()}, "x", 32), "array 'x' is not in the trace of 'a', found sums"),
        (lambda: thread_map(EMPTY, "inp", 32), "thread_map: the trace holds no event"),
        (lambda: thread_map({}, "inp", 32), "thread_map: found no trace"),
        (lambda: thread_map([], "inp", 32), "thread_map: found no trace"),
        (lambda: thread_map(7, "inp", 32), "thread_map: trace is int, expected the result of kernels.trace"),
        (lambda: thread_map(tree(), "sums", (2, 8)), r"shape \(2, 8\) has 16 elements, found element 31 of sums"),
        (lambda: thread_map(tree(), "sums", 32, what="atomic"), "what is 'atomic', found write, read of sums"),
        (lambda: thread_map(tree(), "sums", 32, line="acc"), "no access to sums on line 'acc', found 9"),
        (lambda: thread_map({"a": tree()}, "sums", {"b": 32}), "shapes of b, expected those of a"),
        (lambda: thread_map(tree(), "sums", (4, 8), count=-1), "count is -1, expected 0 or more"),
        (lambda: timeline(EMPTY), "timeline: the trace holds no event"),
        (lambda: timeline({"a": EMPTY}), "timeline: the trace of 'a' holds no event"),
        (lambda: timeline([tree(), tree()]), "timeline: found a list of 2 traces"),
        (lambda: traffic_bars({}), "traffic_bars: found no kernel"),
        (lambda: traffic_bars(TRAFFIC), "traffic_bars: found Traffic, expected a dict"),
        (lambda: traffic_bars({"a": 3}), "traffic_bars: 'a' is int"),
        (lambda: traffic_bars({"a": TRAFFIC}, "texture"), "space is 'texture', expected global or shared"),
        (
            lambda: traffic_bars({"a": TRAFFIC}, arrays=["x"]),
            "array 'x' is not among the global ones of 'a', found inp",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_what_there_is(draw, words):
    with pytest.raises(ValueError, match=words) as caught:
        draw()
    assert "\n" not in str(caught.value)
