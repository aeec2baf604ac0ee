"""Writes the files beside it: passages as another implementation writes them. Made with pyarrow 26.0.1."""

import pyarrow as pa
import pyarrow.parquet as pq

rows = range(10)
table = pa.table(
    {
        "id": [str(row) for row in rows],
        "title": [f"Title {row}" if row % 3 else None for row in rows],
        "text": [f'Text of row {row} \u2013 "quoted"\n\tend' for row in rows],
        "tags": [["a", "b"]] * 10,
        "meta": [{"views": row, "lang": "en"} for row in rows],
    }
)
pq.write_table(table, "snappy.parquet", row_group_size=4)
large = table.set_column(0, "id", pa.array(rows, pa.int32())).set_column(2, "text", table["text"].cast(pa.large_string()))
pq.write_table(large, "zstd.parquet", compression="zstd", data_page_version="2.0")
dictionary = table.set_column(1, "title", table["title"].dictionary_encode())
pq.write_table(dictionary, "dictionary.parquet", compression="none")
with pa.OSFile("file.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table, max_chunksize=3)
with pa.OSFile("stream.arrow", "wb") as sink, pa.ipc.new_stream(sink, large.schema) as writer:
    writer.write_table(large, max_chunksize=3)
