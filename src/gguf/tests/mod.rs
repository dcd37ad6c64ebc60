//! Tests of the reader and the writer together.

mod round_trip;
