"""A grid is what rich's own table is, at a cost that thousands of rows can bear."""

import io
import random

import pytest
from rich.console import Console

from gpubench.report.grid import Grid

WORDS = ["", "x", "resnet20", "0.95 [0.93, 0.97]", "名前", "e\u0301", "\U0001f600", "\u2013"]


def text(shown: object, width: int = 1000) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(shown, crop=False)
    return out.getvalue()


def made(seed: int, rows: int) -> Grid:
    picked = random.Random(seed)
    n_columns = picked.randint(1, 6)
    heads = ["\n".join(picked.choices(WORDS[1:], k=picked.randint(1, 3))) for _ in range(n_columns)]
    cells = [picked.choices(WORDS, k=n_columns) for _ in range(rows)]
    return Grid(heads, cells, picked.choices([True, False], k=n_columns), dim={0})


@pytest.mark.parametrize("seed", range(30))
def test_a_grid_is_the_table_that_rich_draws(seed):
    grid = made(seed, rows=seed % 5)
    assert text(grid) == text(grid._folded())
    assert grid.width == Console(width=1000).measure(grid._folded()).maximum


@pytest.mark.parametrize("seed", range(5))
def test_a_grid_that_does_not_fit_folds_its_cells_where_it_may(seed):
    grid = made(seed, rows=4)
    narrow = grid.width - 1
    assert text(grid, narrow) == text(grid._folded(), narrow)
    whole = Grid(grid.heads, grid.rows, grid.are_numbers, grid.dim, may_fold=False)
    assert text(whole, narrow) == text(grid)
