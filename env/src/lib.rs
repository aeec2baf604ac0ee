//! Question-answering episodes over a retriever, and their rewards.
