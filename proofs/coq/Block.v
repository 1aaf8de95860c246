(** Basic composition of blocks under adaptive choice of blocks, costs and data.

    The statement of block.md and basic.md in crates/sage-kernel/proofs, for finite distributions. *)

Require Import Reals Lra List Bool.
Require Import Sums.
Import ListNotations.
Open Scope R_scope.

Section Blocks.

(** A key names one lane of one block. *)
Variable key : Type.
Variable key_eq : forall a b : key, {a = b} + {a <> b}.

(** What a lane holds, and which contents differ by one privacy unit. *)
Variable data : Type.
Variable neighbour : data -> data -> Prop.
Hypothesis neighbour_symmetric : forall a b, neighbour a b -> neighbour b a.

Definition store := key -> data.

(** A query: the lanes it reads, what it declares on each of them, and the distribution of its output. *)
Record query := {
  reads : list key;
  epsilon : key -> R;
  delta : key -> R;
  outputs : nat;
  distribution : store -> nat -> R
}.

(** [sum f_i p_i <= e^e sum f_i q_i + d] for every test [f] with values in [0, 1]. Events are the tests with values
    0 and 1, and [close_from_events] shows that they suffice. *)
Definition close (n : nat) (e d : R) (p q : nat -> R) : Prop :=
  forall f, (forall i, (i < n)%nat -> 0 <= f i <= 1) ->
    sum n (fun i => p i * f i) <= exp e * sum n (fun i => q i * f i) + d.

Lemma close_from_events : forall n e d p q,
  (forall event : nat -> bool,
     sum n (fun i => p i * if event i then 1 else 0) <= exp e * sum n (fun i => q i * if event i then 1 else 0) + d) ->
  close n e d p q.
Proof.
  intros n e d p q H f Hf.
  specialize (H (fun i => if Rlt_dec (exp e * q i) (p i) then true else false)).
  rewrite <- sum_scale in *.
  assert (Hle : sum n (fun i => p i * f i + - (exp e * (q i * f i)))
    <= sum n (fun i => p i * (if (if Rlt_dec (exp e * q i) (p i) then true else false) then 1 else 0)
         + - (exp e * (q i * (if (if Rlt_dec (exp e * q i) (p i) then true else false) then 1 else 0))))).
  { apply sum_le. intros i Hi. specialize (Hf i Hi). destruct (Rlt_dec (exp e * q i) (p i)); nra. }
  rewrite !sum_plus in Hle.
  assert (Hneg : forall g, sum n (fun i => - g i) = - sum n g).
  { intros g. rewrite (sum_ext n (fun i => - g i) (fun i => -1 * g i)) by (intros; ring). rewrite sum_scale. ring. }
  rewrite !Hneg in Hle. lra.
Qed.

(** A query keeps its declaration: its output depends on the lanes it reads alone, and on each of them it is
    differentially private as declared, whatever the other lanes hold. *)
Record honest (q : query) : Prop := {
  honest_distribution : forall s, is_distribution (outputs q) (distribution q s);
  honest_reads : forall s s' i, (forall k, In k (reads q) -> s k = s' k) -> distribution q s i = distribution q s' i;
  honest_cost : forall s s' k, In k (reads q) -> neighbour (s k) (s' k) ->
    (forall j, In j (reads q) -> j <> k -> s j = s' j) ->
    close (outputs q) (epsilon q k) (delta q k) (distribution q s) (distribution q s');
  honest_epsilon : forall k, 0 <= epsilon q k;
  honest_delta : forall k, 0 <= delta q k
}.

(** An analyst that may have seen every earlier response. It lets data arrive ([one] in one world and [other] in the
    other), or submits a query and continues from its output or from its refusal. Arriving data, queries and their
    declarations may thus depend on everything released before. *)
Inductive analyst :=
| stop
| arrive (k : key) (one other : data) (next : analyst)
| submit (q : query) (granted : nat -> analyst) (refused : analyst).

(** What the two worlds may differ in: one lane, by one unit. *)
Fixpoint differs_in (c : key) (a : analyst) : Prop :=
  match a with
  | stop => True
  | arrive k one other next =>
      (if key_eq k c then one = other \/ neighbour one other else one = other) /\ differs_in c next
  | submit q granted refused => honest q /\ (forall i, differs_in c (granted i)) /\ differs_in c refused
  end.

(** The ceilings, and what each lane has been charged. *)
Variables epsilon_ceiling delta_ceiling : R.
Record ledger := { spent_epsilon : key -> R; spent_delta : key -> R }.

Definition fits (b : ledger) (q : query) (k : key) : bool :=
  (if Rle_dec (spent_epsilon b k + epsilon q k) epsilon_ceiling then true else false)
  && (if Rle_dec (spent_delta b k + delta q k) delta_ceiling then true else false).

(** All or nothing: a query is granted where every lane it reads can pay for it. *)
Definition granted_on (b : ledger) (q : query) : bool := forallb (fits b q) (reads q).

Definition is_read (q : query) (k : key) : bool := if in_dec key_eq k (reads q) then true else false.

Definition charge (b : ledger) (q : query) : ledger := {|
  spent_epsilon := fun k => spent_epsilon b k + (if is_read q k then epsilon q k else 0);
  spent_delta := fun k => spent_delta b k + (if is_read q k then delta q k else 0)
|}.

Definition update (s : store) (k : key) (d : data) : store := fun j => if key_eq j k then d else s j.

(** What is released: an output for each granted query, [None] for each refusal. *)
Definition transcript := list (option nat).

(** The mean of a test of the transcript in one of the two worlds. *)
Fixpoint mean (world : bool) (s : store) (b : ledger) (a : analyst) (f : transcript -> R) : R :=
  match a with
  | stop => f []
  | arrive k one other next => mean world (update s k (if world then one else other)) b next f
  | submit q granted refused =>
      if granted_on b q
      then sum (outputs q)
        (fun i => distribution q s i * mean world s (charge b q) (granted i) (fun t => f (Some i :: t)))
      else mean world s b refused (fun t => f (None :: t))
  end.

Definition test (f : transcript -> R) : Prop := forall t, 0 <= f t <= 1.

Lemma mean_test : forall a c world s b f, differs_in c a -> test f -> 0 <= mean world s b a f <= 1.
Proof.
  induction a as [|k one other next IH|q granted IHg refused IHr]; intros c world s b f H Hf; simpl in *.
  - apply Hf.
  - destruct H as [_ H]. eapply IH; eassumption.
  - destruct H as [Hq [Hg Hr]]. destruct (granted_on b q).
    + apply mean_within; [apply (honest_distribution q Hq)|].
      intros i _. eapply IHg; [apply Hg|]. intros t; apply Hf.
    + eapply IHr; [exact Hr|]. intros t; apply Hf.
Qed.

(** The two worlds agree everywhere but in [c], where they are equal or neighbours. *)
Definition alike (c : key) (s s' : store) : Prop :=
  (forall k, k <> c -> s k = s' k) /\ (s c = s' c \/ neighbour (s c) (s' c)).

Lemma alike_update : forall c s s' k d d',
  alike c s s' -> (if key_eq k c then d = d' \/ neighbour d d' else d = d') -> alike c (update s k d) (update s' k d').
Proof.
  intros c s s' k d d' [Hs Hc] H. unfold update. split.
  - intros j Hj. destruct (key_eq j k) as [->|_]; [|apply Hs; exact Hj].
    destruct (key_eq k c); [contradiction|exact H].
  - destruct (key_eq c k) as [<-|Hn].
    + destruct (key_eq c c); [exact H|contradiction].
    + exact Hc.
Qed.

Lemma close_same : forall n p e d, is_distribution n p -> 0 <= e -> 0 <= d -> close n e d p p.
Proof.
  intros n p e d Hp He Hd f Hf. pose proof (mean_within n p f Hp Hf) as [H0 _].
  assert (1 <= exp e) by (rewrite <- exp_0; destruct He as [He|<-]; [left; apply exp_increasing; exact He|lra]).
  nra.
Qed.

(** A query that does not read [c] has one distribution in both worlds, and one that does has close distributions. *)
Lemma step_close : forall c s s' q, honest q -> alike c s s' ->
  close (outputs q) (if is_read q c then epsilon q c else 0) (if is_read q c then delta q c else 0)
    (distribution q s) (distribution q s').
Proof.
  intros c s s' q Hq [Hs Hc]. unfold is_read. destruct (in_dec key_eq c (reads q)) as [Hin|Hout].
  - destruct Hc as [Hc|Hc].
    + intros f Hf. rewrite (sum_ext (outputs q) _ (fun i => distribution q s' i * f i)).
      * apply close_same;
          [apply (honest_distribution q Hq)|apply (honest_epsilon q Hq)|apply (honest_delta q Hq)|exact Hf].
      * intros i _. f_equal. apply (honest_reads q Hq). intros k _.
        destruct (key_eq k c) as [->|Hk]; [exact Hc|apply Hs; exact Hk].
    + apply (honest_cost q Hq s s' c Hin Hc). intros j _ Hj. apply Hs; exact Hj.
  - intros f Hf. rewrite (sum_ext (outputs q) _ (fun i => distribution q s' i * f i)).
    + apply close_same; [apply (honest_distribution q Hq)|lra|lra|exact Hf].
    + intros i _. f_equal. apply (honest_reads q Hq). intros k Hk. apply Hs. intros ->. contradiction.
Qed.

(** What is left of the ceilings on the lane in which the worlds differ. *)
Definition left_epsilon (b : ledger) (c : key) := epsilon_ceiling - spent_epsilon b c.
Definition left_delta (b : ledger) (c : key) := delta_ceiling - spent_delta b c.

Lemma granted_leaves : forall b q c, granted_on b q = true ->
  0 <= left_epsilon b c -> 0 <= left_delta b c ->
  0 <= left_epsilon (charge b q) c /\ 0 <= left_delta (charge b q) c.
Proof.
  intros b q c H He Hd. unfold left_epsilon, left_delta, charge, is_read in *; simpl.
  destruct (in_dec key_eq c (reads q)) as [Hin|_]; [|lra].
  unfold granted_on in H. rewrite forallb_forall in H. specialize (H c Hin).
  unfold fits in H. apply andb_prop in H. destruct H as [H1 H2].
  destruct (Rle_dec (spent_epsilon b c + epsilon q c) epsilon_ceiling); [|discriminate].
  destruct (Rle_dec (spent_delta b c + delta q c) delta_ceiling); [|discriminate]. lra.
Qed.

Lemma one_world : forall a c s s' b f world,
  differs_in c a -> test f -> alike c s s' -> 0 <= left_epsilon b c -> 0 <= left_delta b c ->
  mean world s b a f <= exp (left_epsilon b c) * mean (negb world) s' b a f + left_delta b c.
Proof.
  induction a as [|k one other next IH|q granted IHg refused IHr]; intros c s s' b f world H Hf Hs He Hd.
  - simpl. pose proof (Hf []) as [H0 _]. pose proof (exp_ineq1_le (left_epsilon b c)). nra.
  - simpl in *. destruct H as [Hk H]. apply IH; auto.
    apply alike_update; [exact Hs|]. destruct world; simpl; destruct (key_eq k c); try symmetry; auto.
    destruct Hk as [Hk|Hk]; [left; symmetry; exact Hk|right; apply neighbour_symmetric; exact Hk].
  - simpl in *. destruct H as [Hq [Hg Hr]]. destruct (granted_on b q) eqn:Hgr.
    2:{ apply IHr; auto. intros t; apply Hf. }
    destruct (granted_leaves b q c Hgr He Hd) as [He' Hd'].
    set (e := if is_read q c then epsilon q c else 0).
    set (d := if is_read q c then delta q c else 0).
    set (e' := left_epsilon (charge b q) c) in *. set (d' := left_delta (charge b q) c) in *.
    assert (Hesum : left_epsilon b c = e + e')
      by (unfold e', e, left_epsilon; simpl; destruct (is_read q c); lra).
    assert (Hdsum : left_delta b c = d + d')
      by (unfold d', d, left_delta; simpl; destruct (is_read q c); lra).
    set (rest := fun i => fun t => f (Some i :: t)).
    set (u := fun i => mean world s (charge b q) (granted i) (rest i)).
    set (v := fun i => mean (negb world) s' (charge b q) (granted i) (rest i)).
    assert (Hrest : forall i, test (rest i)) by (intros i t; apply Hf).
    assert (Hu : forall i, u i <= 1) by (intros i; apply (mean_test (granted i) c world s _ _ (Hg i) (Hrest i))).
    assert (Hv : forall i, 0 <= v i)
      by (intros i; apply (mean_test (granted i) c (negb world) s' _ _ (Hg i) (Hrest i))).
    assert (Huv : forall i, u i <= exp e' * v i + d') by (intros i; apply IHg; auto).
    (* What is above d' is a test of the output: at most 1, and at most e^e' v. *)
    set (g := fun i => Rmin 1 (exp e' * v i)).
    assert (Hexp : 0 < exp e') by apply exp_pos.
    assert (Hg01 : forall i, (i < outputs q)%nat -> 0 <= g i <= 1).
    { intros i _. unfold g. split; [|apply Rmin_l].
      apply Rmin_glb; [lra|]. apply Rmult_le_pos; [lra|apply Hv]. }
    assert (Hug : forall i, u i <= d' + g i).
    { intros i. unfold g. unfold Rmin. destruct (Rle_dec 1 (exp e' * v i)).
      - specialize (Hu i). lra.
      - specialize (Huv i). lra. }
    apply Rle_trans with (sum (outputs q) (fun i => distribution q s i * (d' + g i))).
    { apply sum_le. intros i Hi. apply Rmult_le_compat_l; [apply (honest_distribution q Hq s); exact Hi|apply Hug]. }
    rewrite mean_shift by apply (honest_distribution q Hq).
    pose proof (step_close c s s' q Hq Hs g Hg01) as Hstep. fold e d in Hstep.
    assert (Hgv : sum (outputs q) (fun i => distribution q s' i * g i)
                  <= exp e' * sum (outputs q) (fun i => distribution q s' i * v i)).
    { rewrite <- sum_scale. apply sum_le. intros i Hi.
      replace (exp e' * (distribution q s' i * v i)) with (distribution q s' i * (exp e' * v i)) by ring.
      apply Rmult_le_compat_l; [apply (honest_distribution q Hq s'); exact Hi|apply Rmin_r]. }
    rewrite Hesum, Hdsum, exp_plus.
    apply Rmult_le_compat_l with (r := exp e) in Hgv; [|left; apply exp_pos].
    change (fun i => distribution q s' i *
                     mean (negb world) s' (charge b q) (granted i) (fun t => f (Some i :: t)))
      with (fun i => distribution q s' i * v i). nra.
Qed.

Definition empty_ledger : ledger := {| spent_epsilon := fun _ => 0; spent_delta := fun _ => 0 |}.

(** Whatever the analyst does, the transcripts of two streams that differ by one unit of one lane are
    (epsilon, delta)-close in both directions, with the ceilings as epsilon and delta. *)
Theorem basic_block_composition : forall a c s f world,
  0 <= epsilon_ceiling -> 0 <= delta_ceiling -> differs_in c a -> test f ->
  mean world s empty_ledger a f <= exp epsilon_ceiling * mean (negb world) s empty_ledger a f + delta_ceiling.
Proof.
  intros a c s f world He Hd Ha Hf.
  pose proof (one_world a c s s empty_ledger f world Ha Hf) as H.
  unfold left_epsilon, left_delta in H; simpl in H. rewrite !Rminus_0_r in H.
  apply H; auto. split; [reflexivity|left; reflexivity].
Qed.

End Blocks.
