//! hindsearch.
