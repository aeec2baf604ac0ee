//! A policy trainer that plugs into the search environment.
