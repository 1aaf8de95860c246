//! Resources are in the units of the filter, so that the ledger admits what is reserved.

use sage_engine::allocate::Resources;
use sage_engine::{Blocks, Ceiling, Cost, Delta, Epsilon, Filter, Lane, Mechanism, Rule, Sigma};

fn filter(rule: Rule) -> Filter {
    let epsilon = Epsilon::ceiling("1").expect("a number");
    let delta = Delta::ceiling("1e-6").expect("a number");
    Filter::new(rule, Ceiling { epsilon, delta }).expect("a filter")
}

fn gaussian(sigma: &str) -> Cost {
    let sigma = Sigma::cost(sigma).expect("a number");
    Cost::new(vec![Mechanism::Gaussian { sigma, coordinates: 1, count: 1 }]).expect("a cost")
}

#[test]
fn a_block_has_what_its_filter_has() {
    let lane = [1_000_000_000_000_u64, 1_000_000_000_000];
    let expected = Resources([lane[0], lane[1], lane[0], lane[1]]);
    assert_eq!(Resources::of_block(&filter(Rule::Basic)), Some(expected));
}

#[test]
fn reservations_within_the_cap_are_admitted() {
    let filter = filter(Rule::Renyi);
    let blocks = Blocks::range(0, 0).expect("a block");
    let capacity = Resources::of_block(&filter).expect("it has units");
    assert_eq!(capacity.loss(Lane::Train), 1_000_000_000);
    for sigma in ["10", "31.7", "200"] {
        let amounts = filter.price(&gaussian(sigma), Lane::Train, &blocks).expect("a price");
        let cost = Resources::of_cost(&filter, [Some(&amounts), None]).expect("it has units");
        assert_eq!((cost.loss(Lane::Test), cost.delta(Lane::Test)), (0, 0));
        let mut spent = vec![0_u128; filter.caps().len()];
        let mut left = capacity;
        let mut fitted = 0;
        while cost.within(left) {
            assert!(filter.admits(&spent, &amounts), "sigma {sigma}: share {fitted} was reserved and is refused");
            spent.iter_mut().zip(amounts.units()).for_each(|(spent, more)| *spent += u128::from(*more));
            left.0.iter_mut().zip(cost.0).for_each(|(left, cost)| *left -= cost);
            fitted += 1;
        }
        assert!(fitted > 1, "sigma {sigma} fits {fitted} times");
    }
}

#[test]
fn twice_the_share_is_twice_the_divergence() {
    let filter = filter(Rule::Renyi);
    let blocks = Blocks::range(0, 0).expect("a block");
    let share = |sigma: &str| {
        let amounts = filter.price(&gaussian(sigma), Lane::Train, &blocks).expect("a price");
        Resources::of_cost(&filter, [Some(&amounts), None]).expect("it has units").loss(Lane::Train) as f64
    };
    // Half of sigma is twice the epsilon and four times the share.
    let ratio = share("50") / share("100");
    assert!((ratio - 4.0).abs() < 1e-3, "{ratio}");
}
