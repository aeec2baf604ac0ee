"""`hindsearch.adapters.verifiers` by the name that verifiers can find."""

from hindsearch.adapters.verifiers import InProcess, SearchEnv, SearchTaskset

__all__ = ["InProcess", "SearchEnv", "SearchTaskset"]
