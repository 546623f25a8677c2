"""Pictures of the memory, the weight file and a step: what they say is what the plan, the layout and the graph say."""

import io
import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from andrea_lab.checkpoint.place import Cut
from andrea_lab.model.config import ModelConfig, load_config
from andrea_lab.model.flow import flow
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import plan, scores
from andrea_lab.paths import experiments_dir
from andrea_lab.view import memoryplan
from andrea_lab.view.drawing import megabytes
from andrea_lab.view.hover import VIEW
from andrea_lab.view.memoryplan import memory_plan
from andrea_lab.view.stepflow import Kept, step_flow
from andrea_lab.view.style import Picture, picture
from andrea_lab.view.weightfile import weight_file

MOST_BYTES = 25_000
NANO = load_config("ANDREA-nano", experiments_dir()).model
TINY = layout(ModelConfig(vocab=6, context=4, width=4, heads=1, layers=1))
LARGE = load_config("ANDREA-120M", experiments_dir()).model


def memory(model=NANO, batch=4, context=128, **more) -> Picture:
    return memory_plan(partial(plan, model), batch, context, model.context, scores(model, batch, context), **more)


def step(model=NANO, **more) -> Picture:
    return step_flow(flow(model), plan(model, 4, 128).regions, **more)


def said(picture, *words) -> list[str]:
    """What the regions say in which all of these words occur."""
    return [region[4] for region in picture.regions if all(word in region[4] for word in words)]


def size_of(picture) -> tuple[int, int]:
    return Image.open(io.BytesIO(picture.png)).size


DRAWN = {
    "memory of one row": lambda: memory(batch=1, context=1),
    "memory of the 120M": lambda: memory(LARGE, 8, 1024),
    "step": step,
    "step of one layer": lambda: step(ModelConfig(vocab=9, context=128, width=8, heads=2, layers=1)),
    "step of the 120M": lambda: step(LARGE, layer=5),
    "file": lambda: weight_file(TINY, 200),
    "file of the 120M": lambda: weight_file(layout(LARGE), 200, 10**9),
    "file in one piece": lambda: weight_file([Cut("all", 0, (50,))], 7, (4, 300)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_small_repeats_and_has_regions_within_it(name):
    first, second = DRAWN[name](), DRAWN[name]()
    assert first.png == second.png and repr(first) == repr(second) and first.regions == second.regions
    assert len(first.png) < MOST_BYTES and "\n" not in repr(first)
    width, height = size_of(first)
    for x0, y0, x1, y1, words in first.regions:
        assert 0 <= x0 < x1 <= width and 0 <= y0 <= y1 <= height and words
    assert len({region[4] for region in first.regions}) > 3


def test_words_of_the_caller_stand_in_place_of_the_picture():
    drawn = memory(words="One."), step(words="One."), weight_file(TINY, 200, words="One.")
    assert [repr(picture) for picture in drawn] == ["[One.]"] * 3


# ---- one step


@pytest.mark.parametrize("layer", [0, 2])
def test_the_step_shows_each_part_of_a_layer_in_the_order_of_the_graph(layer):
    parts, picture = flow(NANO), step(layer=layer)
    for backward, way in ((False, "forward: "), (True, "backward: is given")):
        own = [part for part in parts if part.layer == layer and part.backward == backward]
        found = [words for words in said(picture, f"of layer {layer}, {way}") if "no launch" not in words]
        expected = [f"{part.name} of layer {layer}" for part in (reversed(own) if backward else own)]
        assert [words.split(",")[0] for words in found] == expected
        for part, words in zip(reversed(own) if backward else own, found, strict=True):
            for name in (*part.arrays, *part.tensors * (not backward), *part.gradients):
                assert name in words
    assert len(said(picture, "no launch")) == 2  # the two sums of a layer


def test_what_is_kept_is_what_backward_is_given_of_forward():
    parts, planned = flow(NANO), plan(NANO, 4, 128)
    kept = Kept(parts, {region.name: region.role for region in planned.regions})
    saved = {region.name for region in planned.regions if region.role in ("saved", "logits", "inputs")}
    # The row's log-sum-exp is planned with the losses; h and the stream of the last layer are read, nothing is in vain.
    assert set(kept.readers) == saved | {"lse"}
    for region in planned.regions:
        if region.role == "inputs":
            assert kept.writer[region.name] is None
    for words in said(step(), "written by"):
        name = words.split(" ")[0]
        writer, readers = kept.writer[name], kept.readers[name]
        assert f"written by {writer.name}" in words and megabytes(planned.by_name[name].nbytes) in words
        assert [f"{reader.name}" in words.split("read by")[1] for reader in readers] == [True] * len(readers)


def test_a_kept_array_is_drawn_as_high_as_it_is_large():
    planned = plan(NANO, 4, 128)
    bars = {region[4].split(" ")[0]: region for region in step().regions if "written by" in region[4]}
    heights = {name: y1 - y0 for name, (_, y0, _, y1, _) in bars.items()}
    for name in ("layer0.h1", "layer0.act", "layer0.mid", "logits"):
        share = planned.by_name[name].nbytes / planned.by_name["layer0.pre"].nbytes
        assert heights[name] == pytest.approx(share * heights["layer0.pre"])


def test_the_step_in_numbers():
    assert re.fullmatch(
        r"\[One step: 35 parts forward, 27 backward, 68 arrays of 17\.9 MB kept in between, .*\]", repr(step())
    )


# ---- memory


def test_the_memory_at_the_mark_is_the_plan():
    planned, picture = plan(LARGE, 8, 1024), memory(LARGE, 8, 1024)
    total = sum(planned.by_role().values())
    assert repr(picture).startswith(f"[Memory of a microbatch of 8 x 1,024 tokens: {megabytes(total)} (weights 395 MB,")
    assert "would take 4.83 GB more" in repr(picture) and scores(LARGE, 8, 1024) == 12 * 8 * 12 * 1024**2 * 4


def test_what_is_said_along_an_axis_is_the_plan_of_that_place():
    picture = memory(LARGE, 8, 1024)
    at_b = {int(found[1]): words for words in said(picture, "T = 1,024") if (found := re.match(r"B = (\d+),", words))}
    at_t = {int(w[4 : w.index(", B")].replace(",", "")): w for w in said(picture, "B = 8") if w.startswith("T")}
    assert len(at_b) == len(at_t) == 8
    for batch, context in [(b, 1024) for b in at_b] + [(8, t) for t in at_t]:
        roles = plan(LARGE, batch, context).by_role()
        start = f"B = {batch}, T = 1,024" if context == 1024 else f"T = {context:,}, B = 8"
        (words,) = said(picture, start, ": saved")
        assert words == f"{start}, {megabytes(sum(roles.values()))} in all: saved {megabytes(roles['saved'])}"


def test_what_is_thin_of_the_model_stays_below_what_grows():
    picture = memory(LARGE, 64, 300)
    below, above = (said(picture, words) for words in ("model and optimiser (weights, gradients, m, v,", "the rest ("))
    assert len(below) == len(above) == 16 and not any("weights" in words for words in above)
    planned = plan(LARGE, 64, 300).by_role()
    fixed = megabytes(sum(planned[role] for role in ("weights", "gradients", "m", "v", "optimiser")))
    assert all(words.endswith(fixed) for words in below)
    heights = {region[4]: region[3] for region in picture.regions if region[4] in (*below, *above)}
    assert min(heights[words] for words in below) > max(heights[words] for words in above)


@pytest.mark.parametrize(("batch", "unit"), [(8, "MB"), (4096, "GB"), (10**5, "GB"), (10**8, "TB")])
def test_the_numbers_below_and_beside_a_plan_stand_apart(monkeypatch, batch, unit):
    figures = []
    monkeypatch.setattr(memoryplan, "picture", lambda figure, *given: figures.append(figure) or picture(figure, *given))
    memory(NANO, batch, 128)
    axes = figures[0].axes
    for ax in axes:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_visible()]
        assert len(boxes) >= 3 and all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert axes[0].get_ylabel() == unit and not axes[0].yaxis.get_offset_text().get_text()


@pytest.mark.parametrize(("batch", "context"), [(0, 128), (4, 0), (4, 129)])
def test_a_microbatch_that_cannot_be_is_one_line(batch, context):
    with pytest.raises(ValueError, match=rf"^memory_plan: found {batch} rows of {context} tokens, expected .* 128$"):
        memory(batch=batch, context=context)


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (8192, "8.19 kB"), (999_499, "999 kB"), (999_600, "1 MB")]
    + [(25_165_824, "25.2 MB"), (1_184_845_832, "1.18 GB"), (5 * 10**15, "5000 TB")],
)
def test_bytes_in_words(nbytes, words):
    assert megabytes(nbytes) == words


# ---- the weight file


def test_a_tensor_is_where_the_layout_says():
    tensor = TINY["layer0.W_K"]
    first = 8 + 4 * (280 + tensor.offset)
    picture = weight_file(TINY, 200, (first, first + 4 * tensor.size))
    assert repr(picture).endswith("15 tensors; bytes 1,384 to 1,447: m, layer0.W_K, numbers 0 to 15 of 16.]")
    assert "8 + 12 x 280 = 3,368 bytes" in repr(picture)
    for t in TINY:
        at = 8 + 4 * (280 + t.offset)
        words = (
            f"m {t.name} {t.shape}: numbers {t.offset} to {t.stop - 1} of m, bytes {at:,} to {at + 4 * t.size - 1:,}"
        )
        assert words in said(picture, f"m {t.name} ")
    assert "header: bytes 0 to 7; step 200 and n 280, an int32 each" in said(picture, "header")


def test_tensors_are_drawn_to_scale():
    boxes = {r[4].split(" ")[1]: r for r in weight_file(TINY, 200).regions if r[4].startswith("w ")}
    per = {name: (boxes[name][2] - boxes[name][0]) / TINY[name].size for name in ("wte", "wpe", "lm_head", "ln_f.beta")}
    assert np.ptp(list(per.values())) < 1e-9


def test_bytes_across_a_border_are_named_at_both_ends():
    across = repr(weight_file(TINY, 200, (1127, 1129)))
    assert "from byte 1,127: w, lm_head, number 23 = [5, 3], byte 3 of its 4, to byte 1,128: m, wte, number 0" in across


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        (3368, "byte: found 3368, expected 0 to 3367"),
        ((0, 4000), "byte: found 3999, expected 0 to 3367"),
        ((8, 8), "weight_file: found bytes 8 to 8, expected a first and an end behind it"),
    ],
)
def test_bytes_that_are_not_in_the_file_are_one_line(marked, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        weight_file(TINY, 200, marked)


def test_a_layer_that_is_not_there_is_one_line():
    with pytest.raises(ValueError, match="^step_flow: layer is 4, expected one of 0 to 3$"):
        step(layer=4)


# ---- in a notebook


def test_a_picture_with_regions_is_a_widget_and_a_png_that_stands_alone():
    picture = weight_file(TINY, 200)
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == repr(picture) and VIEW in bundle and set(bundle) == {"text/plain", "image/png", VIEW}


def test_a_picture_without_regions_is_a_png():
    assert Picture(b"png", "words")._repr_mimebundle_() == {} and Picture(b"png", "words")._repr_png_() == b"png"
