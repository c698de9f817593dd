"""Encoders of pictures: patches are what they should be, every choice obeys the laws, and the laws catch its bugs."""

import os
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from regard.contract import Memory, Source
from regard.errors import SettingError
from regard.families.family import randomised
from regard.laws.encoder_laws import ENCODER_LAWS, PictureReader
from regard.laws.law import LawBroken, same
from regard.layers.scores import SCORES
from regard.models.vision import (
    GRIDS,
    STEMS,
    ConvStem,
    Halving,
    LearnedGrid,
    LinearStem,
    PatchEncoder,
    SinusoidalGrid,
    check_choices,
    cut,
    grid_of,
    normalised,
)
from regard.watching import watch, watching

DEVICE = torch.device(os.environ.get("REGARD_TEST_DEVICE", "cpu"))
DTYPES = {"float64": torch.float64, "float32": torch.float32}
SIZE = (8, 12)                                             # 2 rows and 3 columns of patches of 4


def encoder(**changes):
    return PatchEncoder(**(dict(size=SIZE, patch=4, width=8, heads=2, layers=1) | changes))


ENCODERS = {
    **{f"{stem}-{grid}-{layers}": dict(stem=stem, positions=grid, layers=layers)
       for stem in STEMS for grid in GRIDS for layers in (0, 2)},
    "post-norm": dict(placement="post", norm="rms", activation="swiglu"),
    "post-norm-straight": dict(placement="post", layers=0),
    **{score: dict(score=score) for score in SCORES},
}


def reader_of(made, dtype="float64"):
    torch.manual_seed(0)
    return PictureReader(randomised(made).to(DEVICE, DTYPES[dtype]).eval(), picture=(3, *SIZE), length=6)


def pictures(number=2, size=SIZE, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (number, 3, *size), generator=random, dtype=torch.uint8)


# ------------------------------------------------------------------------------------------------- patches


def cut_by_definition(pixels, patch):
    height, width = pixels.shape[2:]
    return torch.stack([pixels[:, :, top:top + patch, left:left + patch].flatten(1)
                        for top in range(0, height, patch) for left in range(0, width, patch)], 1)


@pytest.mark.parametrize("size, patch", [((8, 12), 4), ((6, 6), 3), ((5, 10), 5), ((4, 3), 1), ((7, 7), 7)])
def test_the_fast_cut_is_the_cut_by_definition(size, patch):
    pixels = pictures(3, size)
    rows, columns = grid_of(size, patch)
    found = cut(pixels, patch)
    assert found.shape == (3, rows * columns, 3 * patch**2)
    assert torch.equal(found, cut_by_definition(pixels, patch))


def test_position_l_of_the_memory_is_the_patch_at_its_row_and_column():
    """Without blocks a patch knows only of itself: a change in one patch is seen in its own vector alone."""
    made = encoder(layers=0).eval()
    assert made.grid == (2, 3)
    pixels = pictures(1)
    before = made(Source(pixels)).vectors
    for at in range(6):
        row, column = divmod(at, made.grid[1])
        changed = pixels.clone()
        changed[:, :, 4 * row:4 * row + 4, 4 * column:4 * column + 4] += 100
        moved = (made(Source(changed)).vectors != before).any(-1)[0]
        assert moved.tolist() == [other == at for other in range(6)]


def test_a_linear_stem_is_a_convolution_that_steps_from_patch_to_patch():
    stem, pixels = LinearStem(4, 8).double(), pictures()
    weight = stem.project.weight.view(8, 3, 4, 4)
    expected = nn.functional.conv2d(normalised(pixels, torch.float64), weight, stem.project.bias, stride=4)
    torch.testing.assert_close(stem(pixels), expected.flatten(2).transpose(1, 2))


def test_convolutions_end_with_one_pixel_a_patch_and_see_a_little_around_it():
    made, pixels = encoder(stem="conv", layers=0).eval(), pictures(1)
    assert [tuple(each.weight.shape) for each in ConvStem(8, 64).stack] == [(16, 27), (32, 144), (64, 288)]
    changed = pixels.clone()
    changed[:, :, 0, 0] += 100                             # a corner: far from every patch but the first
    moved = (made(Source(changed)).vectors != made(Source(pixels)).vectors).any(-1)[0]
    assert moved.tolist() == [True] + 5 * [False]


@pytest.mark.parametrize("stem", STEMS)
def test_bytes_and_numbers_from_0_to_1_are_the_same_picture(stem):
    made, pixels = encoder(stem=stem).double().eval(), pictures()
    torch.testing.assert_close(made(Source(pixels)).vectors, made(Source(pixels.double() / 255)).vectors)
    assert normalised(torch.tensor([0, 255], dtype=torch.uint8), torch.float32).tolist() == [-1.0, 1.0]


# ----------------------------------------------------------------------------------------------- positions


def test_learned_positions_are_a_row_and_a_column():
    grid = LearnedGrid((2, 3), 8)
    for at in range(6):
        row, column = divmod(at, 3)
        assert torch.equal(grid()[at], grid.row_embedding[row] + grid.column_embedding[column])


def test_sinusoidal_positions_say_the_row_in_one_half_and_the_column_in_the_other():
    p = SinusoidalGrid((2, 3), 8)().view(2, 3, 8)
    assert torch.equal(p[0, :, :4], p[0, :1, :4].expand(3, 4)) and torch.equal(p[:, 0, 4:], p[:1, 0, 4:].expand(2, 4))
    assert len({tuple(each) for each in p.view(6, 8).tolist()}) == 6
    assert p[0, 0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("positions", GRIDS)
def test_only_positions_tell_where_a_patch_stands(positions):
    made = encoder(layers=0, positions=positions).eval()
    vectors = made(Source(torch.full((1, 3, *SIZE), 77, dtype=torch.uint8))).vectors[0]
    assert torch.allclose(vectors, vectors[:1].expand_as(vectors)) == (positions == "none")


def test_muon_is_given_the_blocks_and_the_convolutions_but_no_table_of_positions():
    """It takes matrices whose name has `stack` in it; convolutions learn several times faster by it."""
    made = encoder(stem="conv")
    matrices = [name for name, weight in made.named_parameters() if weight.ndim == 2 and "stack" in name.split(".")]
    assert {name.rpartition("stack")[0] for name in matrices} == {"", "stem."}
    assert {"positions.row_embedding", "positions.column_embedding"} <= dict(made.named_parameters()).keys()


def test_a_halving_is_a_convolution():
    halving, x = Halving(3, 5).double(), torch.randn(2, 3, 6, 4, dtype=torch.float64)
    plain = nn.Conv2d(3, 5, 3, stride=2, padding=1).double()
    with torch.no_grad():
        plain.weight.copy_(halving.weight.view(5, 3, 3, 3))
        plain.bias.copy_(halving.bias.normal_())
    torch.testing.assert_close(halving(x), plain(x))
    assert halving(x).shape == (2, 5, 3, 2)


# ---------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize(("law", "dtype"), [(law, dtype) for law in ENCODER_LAWS for dtype in DTYPES
                                            if law != "gradients" or dtype == "float64"])
@pytest.mark.parametrize("name", ENCODERS)
def test_the_encoder_keeps_the_law(name, law, dtype):
    ENCODER_LAWS[law].check(reader_of(encoder(**ENCODERS[name]), dtype))


@pytest.mark.parametrize("stem", STEMS)
def test_compiled_it_gives_the_same(stem):
    torch._dynamo.reset()
    reader = reader_of(encoder(stem=stem))
    items = reader.draw(3, 6)
    compiled = torch.compile(reader.thing, backend="aot_eager", fullgraph=True)
    with reader.mode(training=True):
        found, expected = (made(Source(items)).vectors for made in (compiled, reader.thing))
    same("compiled", found, expected, "compiled, in train mode")


def test_attention_between_patches_can_be_watched():
    made = encoder(layers=2).eval()
    with watch() as seen:
        made(Source(pictures()))
    assert [tuple(reading.values.shape) for reading in seen.of("weights")] == [(2, 2, 6, 6)] * 2


class ComparesWithTheFirst(PatchEncoder):
    def forward(self, source):
        memory = super().forward(source)
        return Memory(memory.vectors + 1e-6 * memory.vectors[:1], memory.lengths, memory.summary)


class NormalisesOverTheBatch(PatchEncoder):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.batch_norm = nn.BatchNorm1d(self.d_out)

    def forward(self, source):
        memory = super().forward(source)
        return Memory(self.batch_norm(memory.vectors.transpose(1, 2)).transpose(1, 2), memory.lengths, memory.summary)


class SaysTheWrongWidth(PatchEncoder):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.d_out += 1


class WritesIntoThePicture(PatchEncoder):
    def forward(self, source):
        memory = super().forward(source)
        source.items.fill_(0)
        return memory


class NumbersItsRows(PatchEncoder):
    def forward(self, source):
        memory = super().forward(source)
        shift = 1e-6 * torch.arange(len(memory.vectors))[:, None, None]
        return Memory(memory.vectors + shift, memory.lengths, memory.summary)


class ActsForTheWatcher(PatchEncoder):
    def forward(self, source):
        memory = super().forward(source)
        return memory if watching() is None else Memory(memory.vectors * 1.0001, memory.lengths, memory.summary)


class CutsTheGradient(PatchEncoder):
    def forward(self, source):
        memory = super().forward(source)
        return Memory(memory.vectors.detach() * 0.5 + memory.vectors * 0.5, memory.lengths, memory.summary)


class KeepsAMatrixThatNobodyReads(PatchEncoder):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.unread = nn.Linear(4, 4)


PLANTED = {"shapes": [SaysTheWrongWidth, WritesIntoThePicture], "padding": [ComparesWithTheFirst],
           "order": [NumbersItsRows, ComparesWithTheFirst], "watching": [ActsForTheWatcher],
           "train is eval": [NormalisesOverTheBatch], "gradients": [CutsTheGradient],
           "parameters": [KeepsAMatrixThatNobodyReads]}


@pytest.mark.parametrize(("law", "bug"), [pytest.param(law, bug, id=f"{law}-{bug.__name__}")
                                          for law, bugs in PLANTED.items() for bug in bugs])
def test_the_law_catches_the_encoder(law, bug):
    assert set(PLANTED) == set(ENCODER_LAWS)
    torch.manual_seed(0)
    made = bug(size=SIZE, patch=4, width=8, heads=2, layers=1).double()
    with pytest.raises(LawBroken) as caught:
        ENCODER_LAWS[law].check(PictureReader(made, picture=(3, *SIZE), length=6))
    assert caught.value.law == law


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize("size, patch, told", [
    ((48, 48), 7, "model.patch = 7: a picture of 48 x 48 pixels.*1, 2, 3, 4, 6, 8, 12, 16, 24, 48"),
    ((48, 36), 8, "48 x 36 pixels.*1, 2, 3, 4, 6, 12$"), ((8, 8), 16, "model.patch = 16"), ((8, 8), 0, "patch = 0")])
def test_patches_that_do_not_fill_the_picture_are_refused_in_one_line(size, patch, told):
    with pytest.raises(SettingError, match=told) as caught:
        encoder(size=size, patch=patch)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong, told", [
    (dict(stem="cnov"), "did you mean conv"), (dict(positions="learnt"), "did you mean learned"),
    (dict(stem="conv", size=(9, 9), patch=3), "model.patch = 3.*model.stem = linear"),
    (dict(stem="conv", patch=1), "model.patch = 1.*model.stem = linear"),
    (dict(positions="sinusoidal", width=6), "model.width = 6.*multiple of 4")])
def test_a_choice_that_cannot_be_is_refused(wrong, told):
    with pytest.raises(SettingError, match=told):
        encoder(**wrong)


@pytest.mark.parametrize("shape", [(2, 3, 12, 8), (2, 1, 8, 12), (2, 8, 12, 3)])
def test_pictures_of_another_shape_are_refused(shape):
    with pytest.raises(SettingError, match=r"reads \(3, 8, 12\): bring them to 8 x 12 pixels in colour"):
        encoder()(Source(torch.zeros(shape, dtype=torch.uint8)))


@pytest.mark.parametrize("patch, fits", [(1, False), (2, True), (3, False), (4, True), (6, False), (16, True)])
def test_convolutions_want_patches_of_a_power_of_two(patch, fits):
    with nullcontext() if fits else pytest.raises(SettingError, match=f"model.patch = {patch}: convolutions halve"):
        check_choices("conv", "learned", patch=patch, width=8)
    check_choices("linear", "learned", patch=patch, width=8)
