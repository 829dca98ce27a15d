//! Delimited text as typed columns: recognised, encoded, and decoded to the same bytes. Bytes in, bytes out.
