"""Tables of buffers are read, placed and written with their other columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.refusals import refused
from tvm_ios.memory import Bank, Buffer, plan
from tvm_ios.memory.formats.buffer_table import BufferTable
from tvm_ios.memory.planning import BufferError

TEXT = 'note,id,lower,upper,size\nfirst,a,0,10,3\n"b, or c",b,5,20,4\n,c,10,20,3\n'


def test_rows_are_written_as_they_were_with_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text(TEXT)
    table = BufferTable.read(path)
    assert table.buffers == (Buffer("a", 0, 10, 3), Buffer("b", 5, 20, 4), Buffer("c", 10, 20, 3))
    placed = plan(table.buffers)
    assert placed.banks[0].nbytes == 7
    table.write(path, placed)
    lines = path.read_text().splitlines()
    assert lines[0] == "note,id,lower,upper,size,offset"
    assert [line.rpartition(",")[0] for line in lines] == [
        "note,id,lower,upper,size",
        *TEXT.splitlines()[1:],
    ]
    # What was placed can be placed again.
    assert BufferTable.read(path).buffers == table.buffers


def test_banks_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size,bank,traffic\na,0,1,9,dram,\nb,0,1,9,,100\n")
    table = BufferTable.read(path)
    assert table.buffers == (Buffer("a", 0, 1, 9, "dram"), Buffer("b", 0, 1, 9, None, 100))
    table.write(path, plan(table.buffers, [Bank("sram", 10), Bank("dram", cost=2)]))
    assert path.read_text().splitlines()[1:] == ["a,0,1,9,dram,,0,dram", "b,0,1,9,,100,0,sram"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'id'"),
        ("id,lower,size\n", "'upper'"),
        ("id,lower,upper,size\na,0,1\n", "line 2"),
        ("id,lower,upper,size\na,0,1,2\nb,0,1,2,3\n", "line 3"),
        ("id,lower,upper,size\na,0,1,1.5\n", "line 2"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text(text)
    with refused(BufferError, path, words):
        BufferTable.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with refused(BufferError, path, "not text"):
        BufferTable.read(path)
