(** Names every theorem and prints what it assumes; the build compares that with the axioms of the real numbers. *)

Require Import Block Renyi.

Check basic_block_composition.
Print Assumptions basic_block_composition.
Check weighted_renyi_filter.
Print Assumptions weighted_renyi_filter.
