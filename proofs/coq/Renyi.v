(** The Renyi filter with weights, under adaptive choice of mechanisms and costs.

    The statement of crates/sage-kernel/proofs/renyi.md, for finite distributions. *)

Require Import Reals Lra List Bool.
Require Import Sums.
Import ListNotations.
Open Scope R_scope.

(** A cost at one order; [None] is infinite. *)
Definition cost := option R.

Definition plus_cost (a b : cost) : cost :=
  match a, b with
  | Some x, Some y => Some (x + y)
  | _, _ => None
  end.

Definition within (a : cost) (limit : R) : bool :=
  match a with
  | Some x => if Rle_dec x limit then true else false
  | None => false
  end.

(** Sums over a list of orders. *)
Fixpoint total (g : R -> R) (l : list R) : R :=
  match l with
  | [] => 0
  | a :: rest => g a + total g rest
  end.

Lemma total_le : forall l g h, (forall a, In a l -> g a <= h a) -> total g l <= total h l.
Proof.
  induction l as [|a l IH]; intros g h H; simpl; [lra|].
  apply Rplus_le_compat; [apply H; left; reflexivity|apply IH; intros; apply H; right; assumption].
Qed.

Lemma total_nonneg : forall l g, (forall a, In a l -> 0 <= g a) -> 0 <= total g l.
Proof.
  induction l as [|a l IH]; intros g H; simpl; [lra|].
  apply Rplus_le_le_0_compat; [apply H; left; reflexivity|apply IH; intros; apply H; right; assumption].
Qed.

Lemma total_member : forall l g a, (forall b, In b l -> 0 <= g b) -> In a l -> g a <= total g l.
Proof.
  induction l as [|b l IH]; intros g a H Ha; simpl in *; [contradiction|]. destruct Ha as [->|Ha].
  - pose proof (total_nonneg l g (fun c Hc => H c (or_intror Hc))). lra.
  - pose proof (IH g a (fun c Hc => H c (or_intror Hc)) Ha). specialize (H b (or_introl eq_refl)). lra.
Qed.

Lemma sum_total : forall n l g, sum n (fun i => total (g i) l) = total (fun a => sum n (fun i => g i a)) l.
Proof.
  intros n l g. induction l as [|a l IH]; simpl.
  - induction n as [|n IHn]; simpl; [reflexivity|rewrite IHn; lra].
  - rewrite sum_plus, IH. reflexivity.
Qed.

(** The constant of the conversion at one order: the largest value of (1 - s) s^(a-1). *)
Definition constant (a : R) : R := / a * Rpower (1 - / a) (a - 1).

Lemma constant_nonneg : forall a, 1 < a -> 0 <= constant a.
Proof.
  intros a Ha. unfold constant. apply Rmult_le_pos.
  - left. apply Rinv_0_lt_compat. lra.
  - left. unfold Rpower. apply exp_pos.
Qed.

Lemma ln_below : forall x y, 0 < x -> 0 < y -> ln x <= x / y - 1 + ln y.
Proof.
  intros x y Hx Hy. pose proof (exp_ineq1_le (ln (x / y))) as H.
  rewrite exp_ln in H by (apply Rdiv_lt_0_compat; assumption).
  unfold Rdiv in *. rewrite ln_mult, ln_Rinv in H; auto using Rinv_0_lt_compat. lra.
Qed.

(** [1 - 1/u <= constant a * u^(a-1)] for [u > 1]. *)
Lemma conversion : forall a u, 1 < a -> 1 < u -> 1 - / u <= constant a * Rpower u (a - 1).
Proof.
  intros a u Ha Hu.
  assert (Hai : 0 < / a) by (apply Rinv_0_lt_compat; lra).
  assert (Ha1 : / a < 1) by (rewrite <- Rinv_1; apply Rinv_lt_contravar; lra).
  assert (Hui : 0 < / u) by (apply Rinv_0_lt_compat; lra).
  assert (Hu1 : / u < 1) by (rewrite <- Rinv_1; apply Rinv_lt_contravar; lra).
  assert (H1 : ln (1 - / u) <= (1 - / u) / / a - 1 + ln (/ a)) by (apply ln_below; lra).
  assert (H2 : ln (/ u) <= / u / (1 - / a) - 1 + ln (1 - / a)) by (apply ln_below; lra).
  apply Rmult_le_compat_l with (r := a - 1) in H2; [|lra].
  replace ((a - 1) * (/ u / (1 - / a) - 1 + ln (1 - / a)))
    with (a * / u - (a - 1) + (a - 1) * ln (1 - / a)) in H2 by (field; lra).
  replace ((1 - / u) / / a) with (a - a * / u) in H1 by (field; lra).
  rewrite ln_Rinv in H2 by lra.
  unfold constant, Rpower.
  rewrite <- (exp_ln (1 - / u)) by lra. rewrite <- (exp_ln (/ a)) at 1 by lra. rewrite <- !exp_plus.
  destruct (Rle_lt_or_eq_dec (ln (1 - / u)) (ln (/ a) + (a - 1) * ln (1 - / a) + (a - 1) * ln u)) as [H|H].
  - lra.
  - left. apply exp_increasing. exact H.
  - right. f_equal. exact H.
Qed.

Section Filter.

(** The grid of orders, the ceilings, and what each order may spend. *)
Variable orders : list R.
Hypothesis orders_above_one : forall a, In a orders -> 1 < a.
Variables epsilon_ceiling delta_renyi delta_failure : R.
Variable cap : R -> R.

(** The one condition on the caps. With weights [w] that sum to at most one and
    [cap a = epsilon_ceiling - conv (a, w a * delta_renyi)] each term equals [w a * delta_renyi]. *)
Definition price (a : R) : R := constant a * exp (- (a - 1) * (epsilon_ceiling - cap a)).
Hypothesis caps_hold : total price orders <= delta_renyi.

(** A query: the distributions of its output in the two worlds, each a mixture of a main part and a failure of
    probability [delta]; its curve and its bound on the loss, which hold for the main part. *)
Record query := {
  outputs : nat;
  delta : R;
  main : bool -> nat -> R;
  failure : bool -> nat -> R;
  curve : R -> cost;
  pure : cost
}.

Definition output (q : query) (world : bool) (i : nat) : R :=
  (1 - delta q) * main q world i + delta q * failure q world i.

(** [sum p_i^a q_i^(1-a)], the exponential of [(a - 1)] times the Renyi divergence. *)
Definition moment (n : nat) (a : R) (p q : nat -> R) : R :=
  sum n (fun i => if Rlt_dec 0 (p i) then p i * Rpower (p i / q i) (a - 1) else 0).

(** A query keeps its declaration, in both directions. *)
Record honest (q : query) : Prop := {
  honest_delta : 0 <= delta q <= 1;
  honest_main : forall w, is_distribution (outputs q) (main q w);
  honest_failure : forall w, is_distribution (outputs q) (failure q w);
  honest_curve : forall w a r, In a orders -> curve q a = Some r ->
    (forall i, (i < outputs q)%nat -> 0 < main q w i -> 0 < main q (negb w) i) /\
    moment (outputs q) a (main q w) (main q (negb w)) <= exp ((a - 1) * r);
  honest_pure : forall w e, pure q = Some e ->
    forall i, (i < outputs q)%nat -> main q w i <= exp e * main q (negb w) i
}.

(** An analyst that may have seen every earlier response. *)
Inductive analyst :=
| stop
| submit (q : query) (granted : nat -> analyst) (refused : analyst).

Fixpoint all_honest (a : analyst) : Prop :=
  match a with
  | stop => True
  | submit q granted refused => honest q /\ (forall i, all_honest (granted i)) /\ all_honest refused
  end.

(** What has been charged at each order, at order infinity, and of delta. *)
Record ledger := { spent : R -> cost; spent_pure : cost; spent_delta : R }.

Definition charge (b : ledger) (q : query) : ledger := {|
  spent := fun a => plus_cost (spent b a) (curve q a);
  spent_pure := plus_cost (spent_pure b) (pure q);
  spent_delta := spent_delta b + delta q
|}.

(** Some order is within its cap, or the bounds on the loss add up to at most the ceiling. *)
Definition feasible (b : ledger) : bool :=
  existsb (fun a => within (spent b a) (cap a)) orders || within (spent_pure b) epsilon_ceiling.

Definition admitted (b : ledger) : bool :=
  (if Rle_dec (spent_delta b) delta_failure then true else false) && feasible b.

Definition transcript := list (option nat).

(** The mean of a test of the transcript in one of the two worlds. *)
Fixpoint mean (world : bool) (b : ledger) (a : analyst) (f : transcript -> R) : R :=
  match a with
  | stop => f []
  | submit q granted refused =>
      if admitted (charge b q)
      then sum (outputs q) (fun i => output q world i * mean world (charge b q) (granted i) (fun t => f (Some i :: t)))
      else mean world b refused (fun t => f (None :: t))
  end.

Definition test (f : transcript -> R) : Prop := forall t, 0 <= f t <= 1.

Lemma output_is_distribution : forall q w, honest q -> is_distribution (outputs q) (output q w).
Proof.
  intros q w Hq. destruct (honest_main q Hq w) as [Hk Hk1]. destruct (honest_failure q Hq w) as [Hl Hl1].
  pose proof (honest_delta q Hq). split.
  - intros i Hi. specialize (Hk i Hi). specialize (Hl i Hi). unfold output. nra.
  - unfold output. rewrite sum_plus, !sum_scale, Hk1, Hl1. lra.
Qed.

Lemma mean_test : forall a w b f, all_honest a -> test f -> 0 <= mean w b a f <= 1.
Proof.
  induction a as [|q granted IHg refused IHr]; intros w b f H Hf; simpl in *.
  - apply Hf.
  - destruct H as [Hq [Hg Hr]]. destruct (admitted (charge b q)).
    + apply mean_within; [apply output_is_distribution; exact Hq|].
      intros i _. apply IHg; [apply Hg|intros t; apply Hf].
    + apply IHr; [exact Hr|intros t; apply Hf].
Qed.

(** The supermartingale of one order at path densities [x] and [y], and the sum of all with their prices. *)
Definition term (a x y r : R) : R :=
  if Rlt_dec 0 x then x * Rpower (x / y) (a - 1) * exp (- (a - 1) * r) else 0.

Definition share (b : ledger) (x y a : R) : R :=
  match spent b a with
  | Some r => price a * term a x y r
  | None => 0
  end.

Definition potential (b : ledger) (x y : R) : R := total (share b x y) orders + x * (delta_failure - spent_delta b).

Record reachable (b : ledger) (x y : R) : Prop := {
  reach_x : 0 <= x;
  reach_y : 0 <= y;
  reach_order : forall a r, In a orders -> spent b a = Some r -> 0 < x -> 0 < y;
  reach_pure : forall e, spent_pure b = Some e -> x <= exp e * y;
  reach_feasible : feasible b = true;
  reach_delta : spent_delta b <= delta_failure
}.

Lemma term_nonneg : forall a x y r, 0 <= term a x y r.
Proof.
  intros a x y r. unfold term. destruct (Rlt_dec 0 x); [|lra].
  apply Rmult_le_pos; [apply Rmult_le_pos|]; unfold Rpower; try (left; apply exp_pos). lra.
Qed.

Lemma price_nonneg : forall a, In a orders -> 0 <= price a.
Proof.
  intros a Ha. unfold price. apply Rmult_le_pos; [apply constant_nonneg, orders_above_one, Ha|left; apply exp_pos].
Qed.

Lemma share_nonneg : forall b x y a, In a orders -> 0 <= share b x y a.
Proof.
  intros b x y a Ha. unfold share. destruct (spent b a); [|lra].
  apply Rmult_le_pos; [apply price_nonneg; exact Ha|apply term_nonneg].
Qed.

(** At an order within its cap the excess of [x] over [e^epsilon y] is at most its share. *)
Lemma excess_below_share : forall a x y r,
  In a orders -> r <= cap a -> 0 < x -> 0 < y -> exp epsilon_ceiling * y < x ->
  x - exp epsilon_ceiling * y <= price a * term a x y r.
Proof.
  intros a x y r Ha Hr Hx Hy Hxy. pose proof (orders_above_one a Ha) as Ha1.
  set (E := exp epsilon_ceiling) in *. assert (HE : 0 < E) by apply exp_pos.
  set (u := x / (E * y)).
  assert (HEy : 0 < E * y) by (apply Rmult_lt_0_compat; assumption).
  assert (Hu : 1 < u).
  { unfold u. apply Rmult_lt_reg_r with (E * y); [exact HEy|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  pose proof (conversion a u Ha1 Hu) as H.
  assert (Hsplit : x - E * y = x * (1 - / u)).
  { unfold u, Rdiv. rewrite Rinv_mult, Rinv_inv.
    field. lra. }
  rewrite Hsplit. unfold price, term. destruct (Rlt_dec 0 x); [|contradiction].
  apply Rmult_le_compat_l with (r := x) in H; [|lra].
  apply Rle_trans with (1 := H).
  assert (Hpow : Rpower u (a - 1) = Rpower (x / y) (a - 1) * exp (- (a - 1) * epsilon_ceiling)).
  { unfold Rpower, u. rewrite <- exp_plus. f_equal. unfold Rdiv.
    rewrite Rinv_mult.
    rewrite !ln_mult;
      try (apply Rinv_0_lt_compat); try apply Rmult_lt_0_compat; try apply Rinv_0_lt_compat; try assumption.
    rewrite !ln_Rinv by assumption. unfold E. rewrite ln_exp. ring. }
  rewrite Hpow.
  assert (Hc : 0 <= constant a) by (apply constant_nonneg; exact Ha1).
  assert (HR : 0 < Rpower (x / y) (a - 1)) by (unfold Rpower; apply exp_pos).
  assert (Hexp : exp (- (a - 1) * epsilon_ceiling)
                 <= exp (- (a - 1) * (epsilon_ceiling - cap a)) * exp (- (a - 1) * r)).
  { rewrite <- exp_plus. assert (Hle : - (a - 1) * epsilon_ceiling
      <= - (a - 1) * (epsilon_ceiling - cap a) + - (a - 1) * r) by nra.
    destruct Hle as [Hlt|Heq]; [left; apply exp_increasing; exact Hlt|right; f_equal; exact Heq]. }
  replace (x * (constant a * (Rpower (x / y) (a - 1) * exp (- (a - 1) * epsilon_ceiling))))
    with ((x * constant a * Rpower (x / y) (a - 1)) * exp (- (a - 1) * epsilon_ceiling)) by ring.
  replace (constant a * exp (- (a - 1) * (epsilon_ceiling - cap a)) *
           (x * Rpower (x / y) (a - 1) * exp (- (a - 1) * r)))
    with ((x * constant a * Rpower (x / y) (a - 1)) *
          (exp (- (a - 1) * (epsilon_ceiling - cap a)) * exp (- (a - 1) * r))) by ring.
  apply Rmult_le_compat_l; [|exact Hexp].
  apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra].
Qed.

(** At the end of a path what one world has more than the other is within the potential. *)
Lemma at_the_end : forall b x y v, reachable b x y -> 0 <= v <= 1 ->
  x * v - exp epsilon_ceiling * y * v <= potential b x y.
Proof.
  intros b x y v H Hv. pose proof (reach_x b x y H) as Hx. pose proof (reach_y b x y H) as Hy.
  pose proof (reach_delta b x y H) as Hd. unfold potential.
  assert (Hrest : 0 <= x * (delta_failure - spent_delta b)) by (apply Rmult_le_pos; lra).
  assert (Hnon : forall a, In a orders -> 0 <= share b x y a) by (intros; apply share_nonneg; assumption).
  pose proof (total_nonneg orders (share b x y) Hnon) as Htot.
  destruct (Rle_lt_dec x (exp epsilon_ceiling * y)) as [Hle|Hlt]; [nra|].
  assert (Hdiff : x * v - exp epsilon_ceiling * y * v <= x - exp epsilon_ceiling * y) by nra.
  pose proof (reach_feasible b x y H) as Hf. unfold feasible in Hf. apply orb_prop in Hf. destruct Hf as [Hf|Hf].
  - apply existsb_exists in Hf. destruct Hf as [a [Ha Hcap]].
    destruct (spent b a) as [r|] eqn:Hr; simpl in Hcap; [|discriminate].
    destruct (Rle_dec r (cap a)) as [Hra|]; [|discriminate].
    assert (Hxpos : 0 < x) by (pose proof (exp_pos epsilon_ceiling); nra).
    pose proof (reach_order b x y H a r Ha Hr Hxpos) as Hypos.
    pose proof (excess_below_share a x y r Ha Hra Hxpos Hypos Hlt) as Hshare.
    pose proof (total_member orders (share b x y) a Hnon Ha) as Hmem.
    unfold share in Hmem at 1. rewrite Hr in Hmem. lra.
  - destruct (spent_pure b) as [e|] eqn:He; simpl in Hf; [|discriminate].
    destruct (Rle_dec e epsilon_ceiling) as [Hee|]; [|discriminate].
    pose proof (reach_pure b x y H e He) as Hp.
    assert (exp e <= exp epsilon_ceiling)
      by (destruct Hee as [Hl| ->]; [left; apply exp_increasing; exact Hl|right; reflexivity]).
    nra.
Qed.

(** The densities after one more output. *)
Definition after (q : query) (world : bool) (i : nat) (x : R) : R := x * (1 - delta q) * main q world i.

Lemma reachable_after : forall b q w i x y, honest q -> reachable b x y -> admitted (charge b q) = true ->
  (i < outputs q)%nat -> reachable (charge b q) (after q w i x) (after q (negb w) i y).
Proof.
  intros b q w i x y Hq H Hadm Hi.
  pose proof (reach_x b x y H) as Hx. pose proof (reach_y b x y H) as Hy.
  pose proof (honest_delta q Hq) as Hd.
  assert (Hk : forall u, 0 <= main q u i) by (intros u; apply (honest_main q Hq u); exact Hi).
  unfold admitted in Hadm. apply andb_prop in Hadm. destruct Hadm as [H1 H2].
  destruct (Rle_dec (spent_delta (charge b q)) delta_failure) as [Hs|]; [|discriminate].
  assert (Hk' := Hk (negb w)). specialize (Hk w).
  constructor; auto; unfold after.
  - apply Rmult_le_pos; [apply Rmult_le_pos; lra|exact Hk].
  - apply Rmult_le_pos; [apply Rmult_le_pos; lra|exact Hk'].
  - intros a r Ha Hr Hpos. simpl in Hr.
    destruct (spent b a) as [r1|] eqn:Hr1; simpl in Hr; [|discriminate].
    destruct (curve q a) as [r2|] eqn:Hr2; simpl in Hr; [|discriminate].
    destruct (honest_curve q Hq w a r2 Ha Hr2) as [Habs _].
    assert (Hx0 : 0 < x) by (destruct Hx as [Hx|Hx]; [exact Hx|rewrite <- Hx in Hpos; lra]).
    assert (Ha0 : 0 < 1 - delta q) by (destruct Hd as [_ [Hd|Hd]]; [lra|rewrite Hd in Hpos; lra]).
    assert (Hk0 : 0 < main q w i) by (destruct Hk as [Hk|Hk]; [exact Hk|rewrite <- Hk in Hpos; lra]).
    pose proof (Habs i Hi Hk0). pose proof (reach_order b x y H a r1 Ha Hr1 Hx0).
    apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; assumption.
  - intros e He. simpl in He.
    destruct (spent_pure b) as [e1|] eqn:He1; simpl in He; [|discriminate].
    destruct (pure q) as [e2|] eqn:He2; simpl in He; [|discriminate]. injection He as <-.
    pose proof (reach_pure b x y H e1 He1) as Hp1. pose proof (honest_pure q Hq w e2 He2 i Hi) as Hp2.
    rewrite exp_plus.
    assert (Hmul : x * main q w i <= (exp e1 * y) * (exp e2 * main q (negb w) i))
      by (apply Rmult_le_compat; assumption).
    apply Rmult_le_compat_l with (r := 1 - delta q) in Hmul; [|lra]. nra.
Qed.

(** One query does not raise the mean of an order's supermartingale. *)
Lemma order_falls : forall b q w a x y, honest q -> reachable b x y -> In a orders ->
  sum (outputs q) (fun i => share (charge b q) (after q w i x) (after q (negb w) i y) a) <= share b x y a.
Proof.
  intros b q w a x y Hq H Ha.
  pose proof (share_nonneg b x y a Ha) as Hnon.
  assert (Hzero : forall g, (forall i, (i < outputs q)%nat -> g i = 0) -> sum (outputs q) g = 0).
  { intros g Hg. rewrite (sum_ext _ g (fun _ => 0 * 1)) by (intros i Hi; rewrite (Hg i Hi); ring).
    rewrite sum_scale. ring. }
  pose proof (honest_delta q Hq) as Hd.
  unfold share at 1. simpl. unfold share in Hnon |- *.
  destruct (spent b a) as [r|] eqn:Hr; simpl; [|rewrite Hzero; [lra|reflexivity]].
  destruct (curve q a) as [s|] eqn:Hs; simpl; [|rewrite Hzero; [exact Hnon|reflexivity]].
  destruct (honest_curve q Hq w a s Ha Hs) as [Habs Hmom].
  rewrite sum_scale. apply Rmult_le_compat_l; [apply price_nonneg; exact Ha|].
  pose proof (reach_x b x y H) as Hx.
  destruct (Rlt_dec 0 x) as [Hx0|Hx0].
  2:{ rewrite Hzero; [apply term_nonneg|]. intros i _. unfold term, after.
      assert (x = 0) as -> by lra. destruct (Rlt_dec 0 (0 * (1 - delta q) * main q w i)); [lra|reflexivity]. }
  pose proof (reach_order b x y H a r Ha Hr Hx0) as Hy0.
  destruct (Rlt_dec 0 (1 - delta q)) as [Ha0|Ha0].
  2:{ rewrite Hzero; [apply term_nonneg|]. intros i _. unfold term, after.
      assert (delta q = 1) as -> by lra. destruct (Rlt_dec 0 (x * (1 - 1) * main q w i)); [lra|reflexivity]. }
  set (front := (1 - delta q) * (x * Rpower (x / y) (a - 1) * exp (- (a - 1) * r)) * exp (- (a - 1) * s)).
  assert (Hterm : forall i, (i < outputs q)%nat ->
    term a (after q w i x) (after q (negb w) i y) (r + s)
    = front * (if Rlt_dec 0 (main q w i)
               then main q w i * Rpower (main q w i / main q (negb w) i) (a - 1) else 0)).
  { intros i Hi. unfold term, after.
    destruct (Rlt_dec 0 (main q w i)) as [Hk|Hk].
    - pose proof (Habs i Hi Hk) as Hk'.
      destruct (Rlt_dec 0 (x * (1 - delta q) * main q w i)) as [_|Hn].
      2:{ exfalso. apply Hn. apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; assumption. }
      replace (x * (1 - delta q) * main q w i / (y * (1 - delta q) * main q (negb w) i))
        with ((x / y) * (main q w i / main q (negb w) i)) by (field; repeat split; lra).
      rewrite <- Rpower_mult_distr by (apply Rdiv_lt_0_compat; assumption).
      rewrite Rmult_plus_distr_l, exp_plus. unfold front. ring.
    - destruct (Rlt_dec 0 (x * (1 - delta q) * main q w i)) as [Hp|_]; [|ring].
      exfalso. apply Hk. pose proof (honest_main q Hq w) as [Hkk _]. specialize (Hkk i Hi).
      destruct Hkk as [Hkk|Hkk]; [exact Hkk|rewrite <- Hkk in Hp; lra]. }
  rewrite (sum_ext _ _ _ Hterm), sum_scale.
  fold (moment (outputs q) a (main q w) (main q (negb w))).
  unfold term. destruct (Rlt_dec 0 x); [|contradiction].
  set (here := x * Rpower (x / y) (a - 1) * exp (- (a - 1) * r)) in *.
  assert (Hhere : 0 <= here).
  { unfold here. apply Rmult_le_pos; [apply Rmult_le_pos; [lra|]|]; unfold Rpower; left; apply exp_pos. }
  assert (Hes : exp (- (a - 1) * s) * moment (outputs q) a (main q w) (main q (negb w)) <= 1).
  { apply Rle_trans with (exp (- (a - 1) * s) * exp ((a - 1) * s)).
    - apply Rmult_le_compat_l; [left; apply exp_pos|exact Hmom].
    - rewrite <- exp_plus. replace (- (a - 1) * s + (a - 1) * s) with 0 by ring. rewrite exp_0. lra. }
  unfold front. set (m := moment (outputs q) a (main q w) (main q (negb w))) in *.
  replace ((1 - delta q) * here * exp (- (a - 1) * s) * m)
    with (((1 - delta q) * here) * (exp (- (a - 1) * s) * m)) by ring.
  assert (H1 : 0 <= (1 - delta q) * here) by (apply Rmult_le_pos; lra). nra.
Qed.

Lemma one_world : forall a b x y f w, all_honest a -> test f -> reachable b x y ->
  x * mean w b a f - exp epsilon_ceiling * y * mean (negb w) b a f <= potential b x y.
Proof.
  induction a as [|q granted IHg refused IHr]; intros b x y f w H Hf Hreach.
  - simpl. apply at_the_end; [exact Hreach|apply Hf].
  - simpl in *. destruct H as [Hq [Hg Hr]]. destruct (admitted (charge b q)) eqn:Hadm.
    2:{ apply IHr; auto. intros t; apply Hf. }
    set (u := fun i => mean w (charge b q) (granted i) (fun t => f (Some i :: t))).
    set (v := fun i => mean (negb w) (charge b q) (granted i) (fun t => f (Some i :: t))).
    change (fun i => output q w i * mean w (charge b q) (granted i) (fun t => f (Some i :: t)))
      with (fun i => output q w i * u i).
    change (fun i => output q (negb w) i * mean (negb w) (charge b q) (granted i) (fun t => f (Some i :: t)))
      with (fun i => output q (negb w) i * v i).
    assert (Hu : forall i, 0 <= u i <= 1) by (intros i; apply mean_test; [apply Hg|intros t; apply Hf]).
    assert (Hv : forall i, 0 <= v i <= 1) by (intros i; apply mean_test; [apply Hg|intros t; apply Hf]).
    pose proof (honest_delta q Hq) as Hd. set (d := delta q) in *.
    pose proof (reach_x b x y Hreach) as Hx. pose proof (reach_y b x y Hreach) as Hy.
    set (E := exp epsilon_ceiling) in *. assert (HE : 0 < E) by apply exp_pos.
    (* A failure costs one world d, and the other only gains by it. *)
    assert (HU : sum (outputs q) (fun i => output q w i * u i)
                 <= (1 - d) * sum (outputs q) (fun i => main q w i * u i) + d).
    { unfold output. rewrite (sum_ext _ _ (fun i => (1 - d) * (main q w i * u i) + d * (failure q w i * u i)))
        by (intros; unfold d; ring).
      rewrite sum_plus, !sum_scale.
      pose proof (mean_within (outputs q) (failure q w) u (honest_failure q Hq w) (fun i _ => Hu i)). nra. }
    assert (HV : (1 - d) * sum (outputs q) (fun i => main q (negb w) i * v i)
                 <= sum (outputs q) (fun i => output q (negb w) i * v i)).
    { unfold output. rewrite (sum_ext _
        (fun i => ((1 - delta q) * main q (negb w) i + delta q * failure q (negb w) i) * v i)
        (fun i => (1 - d) * (main q (negb w) i * v i) + d * (failure q (negb w) i * v i)))
        by (intros; unfold d; ring).
      rewrite sum_plus, !sum_scale.
      pose proof (mean_within (outputs q) (failure q (negb w)) v (honest_failure q Hq (negb w)) (fun i _ => Hv i)).
      nra. }
    assert (Hsum : sum (outputs q) (fun i => after q w i x * u i - E * after q (negb w) i y * v i)
                   <= sum (outputs q) (fun i => potential (charge b q) (after q w i x) (after q (negb w) i y))).
    { apply sum_le. intros i Hi. apply IHg; [apply Hg|intros t; apply Hf|].
      apply reachable_after; assumption. }
    unfold potential in Hsum. rewrite sum_plus, sum_total in Hsum.
    assert (Horders : total (fun a => sum (outputs q)
        (fun i => share (charge b q) (after q w i x) (after q (negb w) i y) a)) orders
        <= total (share b x y) orders)
      by (apply total_le; intros a Ha; apply order_falls; assumption).
    assert (Hfailure : sum (outputs q) (fun i => after q w i x * (delta_failure - spent_delta (charge b q)))
                     = x * (1 - d) * (delta_failure - spent_delta b - d)).
    { rewrite (sum_ext _ _ (fun i => (x * (1 - d) * (delta_failure - spent_delta b - d)) * main q w i))
        by (intros; unfold after, d; simpl; ring).
      rewrite sum_scale. destruct (honest_main q Hq w) as [_ ->]. ring. }
    rewrite Hfailure in Hsum.
    rewrite (sum_ext _ (fun i => after q w i x * u i - E * after q (negb w) i y * v i)
      (fun i => (x * (1 - d)) * (main q w i * u i) + (- (E * y * (1 - d))) * (main q (negb w) i * v i))) in Hsum
      by (intros; unfold after, d; ring).
    rewrite sum_plus, !sum_scale in Hsum.
    assert (Hroom : 0 <= delta_failure - spent_delta b - d).
    { unfold admitted in Hadm. apply andb_prop in Hadm. destruct Hadm as [Ha _]. simpl in Ha.
      destruct (Rle_dec (spent_delta b + delta q) delta_failure); [unfold d; lra|discriminate]. }
    unfold potential.
    set (su := sum (outputs q) (fun i => main q w i * u i)) in *.
    set (sv := sum (outputs q) (fun i => main q (negb w) i * v i)) in *.
    apply Rmult_le_compat_l with (r := x) in HU; [|exact Hx].
    apply Rmult_le_compat_l with (r := E * y) in HV; [|apply Rmult_le_pos; lra].
    assert (Hx1 : 0 <= x * (delta_failure - spent_delta b - d) * d)
      by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra).
    lra.
Qed.

Definition empty_ledger : ledger := {| spent := fun _ => Some 0; spent_pure := Some 0; spent_delta := 0 |}.

Lemma price_at_start : total (share empty_ledger 1 1) orders <= delta_renyi.
Proof.
  apply Rle_trans with (2 := caps_hold). apply total_le. intros a Ha. unfold share, empty_ledger, term; simpl.
  destruct (Rlt_dec 0 1); [|lra].
  replace (1 / 1) with 1 by field. unfold Rpower. rewrite ln_1, !Rmult_0_r, exp_0. lra.
Qed.

(** Whatever the analyst does, the transcripts of the two worlds are close in both directions, with the ceiling as
    epsilon and the sum of both shares as delta. *)
Theorem renyi_filter : forall a f w,
  0 <= epsilon_ceiling -> 0 <= delta_failure -> all_honest a -> test f ->
  mean w empty_ledger a f <= exp epsilon_ceiling * mean (negb w) empty_ledger a f + (delta_renyi + delta_failure).
Proof.
  intros a f w He Hd Ha Hf.
  assert (Hreach : reachable empty_ledger 1 1).
  { constructor; simpl; try lra.
    - intros; lra.
    - intros e He0. injection He0 as <-. rewrite exp_0. lra.
    - unfold feasible. apply orb_true_intro. right. simpl.
      destruct (Rle_dec 0 epsilon_ceiling); [reflexivity|contradiction]. }
  pose proof (one_world a empty_ledger 1 1 f w Ha Hf Hreach) as H. unfold potential in H.
  pose proof price_at_start. simpl spent_delta in H. lra.
Qed.

End Filter.

(** The caps that weights give: each order gets its weight's part of [delta_renyi]. *)
Definition weighted_cap (epsilon_ceiling delta_renyi : R) (weight : R -> R) (a : R) : R :=
  epsilon_ceiling - ln (constant a / (weight a * delta_renyi)) / (a - 1).

Lemma constant_pos : forall a, 1 < a -> 0 < constant a.
Proof.
  intros a Ha. unfold constant. apply Rmult_lt_0_compat; [apply Rinv_0_lt_compat; lra|unfold Rpower; apply exp_pos].
Qed.

Lemma weighted_price : forall e d weight a, 1 < a -> 0 < weight a -> 0 < d ->
  price e (weighted_cap e d weight) a = weight a * d.
Proof.
  intros e d weight a Ha Hw Hd. unfold price, weighted_cap.
  pose proof (constant_pos a Ha) as Hc. assert (Hwd : 0 < weight a * d) by (apply Rmult_lt_0_compat; assumption).
  replace (- (a - 1) * (e - (e - ln (constant a / (weight a * d)) / (a - 1))))
    with (- ln (constant a / (weight a * d))) by (field; lra).
  rewrite exp_Ropp, exp_ln by (apply Rdiv_lt_0_compat; assumption). field. split; lra.
Qed.

Lemma total_scale : forall l g d, total (fun a => g a * d) l = total g l * d.
Proof. induction l as [|a l IH]; intros g d; simpl; [ring|rewrite IH; ring]. Qed.

(** The filter as renyi.md states it: weights that sum to at most one. *)
Theorem weighted_renyi_filter : forall orders weight epsilon_ceiling delta_renyi delta_failure a f w,
  (forall o, In o orders -> 1 < o) -> (forall o, In o orders -> 0 < weight o) -> total weight orders <= 1 ->
  0 <= epsilon_ceiling -> 0 < delta_renyi -> 0 <= delta_failure -> all_honest orders a -> test f ->
  let cap := weighted_cap epsilon_ceiling delta_renyi weight in
  let run := fun world => mean orders epsilon_ceiling delta_failure cap world empty_ledger a f in
  run w <= exp epsilon_ceiling * run (negb w) + (delta_renyi + delta_failure).
Proof.
  intros orders weight e dr df a f w Ho Hw Hsum He Hdr Hdf Ha Hf cap run.
  apply renyi_filter; auto. unfold cap.
  apply Rle_trans with (total (fun o => weight o * dr) orders).
  - apply total_le. intros o Hin. right. apply weighted_price; auto.
  - rewrite total_scale. nra.
Qed.
