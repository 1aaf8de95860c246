//! The binary tree mechanism for a running count: which sums to release, how to add them up, and their error bound.
//!
//! Steps are numbered from zero. A node of level ℓ covers 2^ℓ steps that begin at a multiple of 2^ℓ, and its
//! noisy sum is released when the last of them is complete. A unit that joins in one step is in one node of each
//! level, so with L levels it contributes to L released sums; a prefix of t steps is a sum of few nodes. Everything
//! here is arithmetic on public numbers: the kernel releases the sums themselves.

/// A binary tree over steps, given by its depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    levels: u32,
}

/// A node of the tree: consecutive steps whose sum is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The level; the node covers 2^level steps.
    pub level: u32,
    /// The first step.
    pub first: u64,
}

impl Node {
    /// The steps that the node covers.
    pub const fn steps(self) -> std::ops::Range<u64> {
        self.first..self.first + (1 << self.level)
    }
}

impl Tree {
    /// The tree for this many steps, at least one. Running more steps does not weaken privacy; the count then adds up
    /// more nodes of the highest level and becomes less accurate.
    pub fn for_steps(steps: u32) -> Self {
        Self { levels: steps.max(1).ilog2() + 1 }
    }

    /// The number of levels, which is also the number of released sums that contain a unit.
    pub const fn levels(self) -> u32 {
        self.levels
    }

    /// The nodes that step number `steps` completes, to be released after it.
    pub fn completed(self, steps: u64) -> impl Iterator<Item = Node> {
        let levels = if steps == 0 { 0 } else { self.levels.min(steps.trailing_zeros() + 1) };
        (0..levels).map(move |level| Node { level, first: steps - (1 << level) })
    }

    /// The nodes whose sums add up to the sum of the first `steps` steps.
    pub fn prefix(self, steps: u64) -> impl Iterator<Item = Node> {
        let top = self.levels - 1;
        let whole = (0..steps >> top).map(move |index| Node { level: top, first: index << top });
        let below = (0..top).rev().filter(move |level| steps >> level & 1 == 1);
        whole.chain(below.map(move |level| Node { level, first: steps >> (level + 1) << (level + 1) }))
    }
}

/// The bound t with P(X > t) ≤ `beta` for the sum X of `terms` discrete Laplace variables with this ε each.
///
/// It is Chernoff's bound: for every s below ε, P(X > t) ≤ M(s)^terms · e^(−st), minimised over s.
/// `None` if a parameter is out of range.
pub fn laplace_sum_quantile(terms: u32, epsilon: f64, beta: f64) -> Option<f64> {
    let valid = terms > 0 && epsilon > 0.0 && epsilon.is_finite() && beta > 0.0 && beta < 1.0;
    if !valid {
        return None;
    }
    let bound = |s: f64| (f64::from(terms) * log_moment(epsilon, s) - beta.ln()) / s;
    // The bound is unimodal in s, so a golden-section search finds its minimum.
    let (mut low, mut high) = (epsilon * 1e-6, epsilon * (1.0 - 1e-9));
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..80 {
        let width = (high - low) * ratio;
        if bound(high - width) < bound(low + width) { high = low + width } else { low = high - width }
    }
    Some(bound(0.5 * (low + high)))
}

/// ln E e^(sX) for X with probabilities in proportion to e^(−ε|x|).
fn log_moment(epsilon: f64, s: f64) -> f64 {
    let gap = |exponent: f64| (-(-exponent).exp_m1()).ln();
    2.0 * gap(epsilon) - gap(epsilon - s) - gap(epsilon + s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_table() {
        for (steps, levels) in [(1, 1), (2, 2), (7, 3), (8, 4), (1024, 11), (4096, 13)] {
            assert_eq!(Tree::for_steps(steps).levels(), levels, "{steps} steps");
            let most = (1..=u64::from(steps)).map(|t| Tree::for_steps(steps).prefix(t).count()).max();
            assert!(most <= Some(levels as usize), "{steps} steps need at most one node a level");
        }
    }

    #[test]
    fn a_prefix_is_every_step_once_from_nodes_that_were_released() {
        for horizon in [1, 2, 3, 8, 13] {
            let tree = Tree::for_steps(horizon);
            let mut released = Vec::new();
            for done in 1..=40 {
                released.extend(tree.completed(done));
                let nodes: Vec<Node> = tree.prefix(done).collect();
                assert!(nodes.iter().all(|node| released.contains(node)), "{horizon} {done} {nodes:?}");
                let covered: Vec<u64> = nodes.iter().flat_map(|node| node.steps()).collect();
                assert_eq!(covered, (0..done).collect::<Vec<_>>(), "horizon {horizon}");
            }
            // A unit of one step is in at most one node of each level.
            for step in 0..40 {
                let within = released.iter().filter(|node| node.steps().contains(&step)).count();
                assert!(within <= tree.levels() as usize, "horizon {horizon}, step {step}");
            }
            assert_eq!(tree.completed(0).count() + tree.prefix(0).count(), 0);
        }
    }

    /// P(X > t) for the sum of two such variables, by direct summation.
    fn tail_of_two(epsilon: f64, above: f64) -> f64 {
        let mass = |x: i64| (-epsilon * (x.abs() as f64)).exp() * (epsilon / 2.0).tanh();
        let reach = (60.0 / epsilon) as i64;
        let pairs = (-reach..=reach).flat_map(|x| (-reach..=reach).map(move |y| (x, y)));
        pairs.filter(|(x, y)| (x + y) as f64 > above).map(|(x, y)| mass(x) * mass(y)).sum()
    }

    #[test]
    fn the_quantile_holds_and_is_not_idle() {
        for epsilon in [0.2, 1.0] {
            for beta in [0.1, 1e-3] {
                let bound = laplace_sum_quantile(2, epsilon, beta).expect("valid parameters");
                let tail = tail_of_two(epsilon, bound);
                assert!(tail <= beta, "{epsilon} {beta}: {tail}");
                assert!(tail > beta / 40.0, "{epsilon} {beta}: {tail} is far too conservative");
            }
        }
        for (terms, epsilon, beta) in [(0, 1.0, 0.1), (1, 0.0, 0.1), (1, 1.0, 0.0), (1, f64::NAN, 0.1), (1, 1.0, 1.0)] {
            assert_eq!(laplace_sum_quantile(terms, epsilon, beta), None);
        }
    }
}
