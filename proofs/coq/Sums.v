(** Finite sums of real numbers, and probability distributions on [0, ..., n-1]. *)

Require Import Reals Lra.
Open Scope R_scope.

Fixpoint sum (n : nat) (g : nat -> R) : R :=
  match n with
  | O => 0
  | S m => sum m g + g m
  end.

Lemma sum_le : forall n g h, (forall i, (i < n)%nat -> g i <= h i) -> sum n g <= sum n h.
Proof.
  induction n as [|n IH]; intros g h H; simpl; [lra|].
  apply Rplus_le_compat; [apply IH; intros; apply H|apply H]; auto with arith.
Qed.

Lemma sum_ext : forall n g h, (forall i, (i < n)%nat -> g i = h i) -> sum n g = sum n h.
Proof.
  intros n g h H. apply Rle_antisym; apply sum_le; intros i Hi; rewrite (H i Hi); lra.
Qed.

Lemma sum_plus : forall n g h, sum n (fun i => g i + h i) = sum n g + sum n h.
Proof. induction n as [|n IH]; intros g h; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_scale : forall n a g, sum n (fun i => a * g i) = a * sum n g.
Proof. induction n as [|n IH]; intros a g; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_nonneg : forall n g, (forall i, (i < n)%nat -> 0 <= g i) -> 0 <= sum n g.
Proof.
  intros n g H. replace 0 with (sum n (fun _ => 0)); [apply sum_le; exact H|].
  induction n as [|n IH]; simpl; [lra|rewrite IH; [lra|intros; apply H; auto with arith]].
Qed.

(** [p] is a probability distribution on the numbers below [n]. *)
Definition is_distribution (n : nat) (p : nat -> R) : Prop :=
  (forall i, (i < n)%nat -> 0 <= p i) /\ sum n p = 1.

(** The mean of values within [0, 1] lies within [0, 1]. *)
Lemma mean_within : forall n p g,
  is_distribution n p -> (forall i, (i < n)%nat -> 0 <= g i <= 1) -> 0 <= sum n (fun i => p i * g i) <= 1.
Proof.
  intros n p g [Hp H1] Hg. split.
  - apply sum_nonneg; intros i Hi. apply Rmult_le_pos; [apply Hp|apply Hg]; exact Hi.
  - rewrite <- H1. apply sum_le; intros i Hi. rewrite <- (Rmult_1_r (p i)) at 2.
    apply Rmult_le_compat_l; [apply Hp|apply Hg]; exact Hi.
Qed.

(** Adding a constant to each value adds it to the mean. *)
Lemma mean_shift : forall n p g a,
  is_distribution n p -> sum n (fun i => p i * (a + g i)) = a + sum n (fun i => p i * g i).
Proof.
  intros n p g a [_ H1].
  rewrite (sum_ext n _ (fun i => a * p i + p i * g i)) by (intros; lra).
  rewrite sum_plus, sum_scale, H1; lra.
Qed.
