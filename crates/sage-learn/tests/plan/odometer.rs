//! Remaining and spent budget, checked against the kernel's filters.

use sage_kernel::accountant::rho_for;
use sage_kernel::{
    Amounts, Blocks, Ceiling, Cost, DeclaredQuery, Delta, Epsilon, Filter, Lane, Mechanism, Rule, Sigma,
};
use sage_learn::plan::{epsilon_from_zcdp, fits, odometer};

use super::shared::ZCDP;
use super::{check_above, check_below};

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).unwrap(), delta: Delta::ceiling(delta).unwrap() }
}

fn anywhere() -> Blocks {
    Blocks::range(0, 4).unwrap()
}

fn laplace(loss: &str) -> Cost {
    Cost::new(vec![Mechanism::Laplace { epsilon: Epsilon::cost(loss).unwrap(), count: 1 }]).unwrap()
}

fn times(amounts: &Amounts, count: u64) -> Vec<u128> {
    amounts.units().iter().map(|&units| u128::from(units) * u128::from(count)).collect()
}

#[test]
fn zcdp_matches_reference_and_inverts() {
    for &(rho, delta, exact) in ZCDP {
        let found = epsilon_from_zcdp(rho, delta).unwrap();
        check_above(found * (1.0 + 1e-12), exact, 1e-9, &format!("rho {rho} delta {delta}"));
        check_below(rho_for(found, delta).unwrap(), rho, 1e-9, "inverse");
    }
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(epsilon_from_zcdp(bad, 1e-6).is_err() && epsilon_from_zcdp(0.1, bad).is_err());
    }
    assert!(epsilon_from_zcdp(1e300, 1e-6).unwrap() > 1e300);
}

/// `fits` searches by bisection; here the count and the next one are tried.
#[test]
fn what_fits_is_admitted_and_no_more() {
    for (rule, loss, expected) in
        [(Rule::Basic, "0.1", 10), (Rule::Renyi, "0.01", 438), (Rule::Strong, "0.01", 458), (Rule::Basic, "1.1", 0)]
    {
        let filter = Filter::new(rule, ceiling("1", "1e-6")).unwrap();
        let amounts = filter.price(&laplace(loss), Lane::Train, &anywhere()).unwrap();
        let nothing = vec![0; filter.caps().len()];
        let most = fits(&filter, &nothing, &amounts);
        assert_eq!(most, expected, "{rule}");
        assert!(most == 0 || filter.admits(&times(&amounts, most - 1), &amounts), "{rule}");
        assert!(!filter.admits(&times(&amounts, most), &amounts), "{rule}");
        assert_eq!(fits(&filter, &times(&amounts, most), &amounts), 0, "{rule}");
        assert_eq!(fits(&filter, &[], &amounts), 0, "the state of another filter");
    }
    // A cost without a bound never fits, and counting it does not overflow.
    let filter = Filter::new(Rule::Renyi, ceiling("1", "0")).unwrap();
    let part = Mechanism::Gaussian { sigma: Sigma::cost("50").unwrap(), coordinates: 1, count: 1 };
    let amounts = filter.price(&Cost::new(vec![part]).unwrap(), Lane::Train, &anywhere()).unwrap();
    assert_eq!(fits(&filter, &vec![0; filter.caps().len()], &amounts), 0);
}

#[test]
fn odometers_match_the_theorems() {
    for (rule, bound, count, expected) in [
        (Rule::Strong, ("1", "1e-6"), 1, 0.44500116708641724),
        (Rule::Strong, ("1", "1e-6"), 50, 3.6403055774085886),
        (Rule::Strong, ("10", "1e-7"), 100, 5.796414207172113),
        (Rule::Basic, ("1", "1e-6"), 3, 0.3),
    ] {
        let filter = Filter::new(rule, ceiling(bound.0, bound.1)).unwrap();
        let amounts = filter.price(&laplace("0.1"), Lane::Test, &anywhere()).unwrap();
        let read = odometer(&filter, &times(&amounts, count)).units() as f64 / 1e12;
        assert!(read >= expected - 1e-12 && read < expected + 1e-8, "{rule} {count}: {read} {expected}");
        assert_eq!(odometer(&filter, &times(&amounts, 0)), Epsilon::ZERO);
    }
}

/// The Rényi odometer is the smallest ceiling that would have admitted the spent budget.
#[test]
fn the_renyi_odometer_reaches_the_ceiling_when_nothing_fits() {
    let filter = Filter::new(Rule::Renyi, ceiling("1", "1e-6")).unwrap();
    let one = Epsilon::cost("1").unwrap();
    for loss in ["0.01", "0.1"] {
        let amounts = filter.price(&laplace(loss), Lane::Train, &anywhere()).unwrap();
        let most = fits(&filter, &times(&amounts, 0), &amounts);
        let read = |count: u64| odometer(&filter, &times(&amounts, count));
        assert!(read(most) <= one && read(most + 1) > one);
        assert!(read(1) <= read(2) && read(1) > Epsilon::ZERO);
    }
}

/// The odometer of a fixed list composes the used declarations.
#[test]
fn a_fixed_odometer_composes_the_used_declarations() {
    let declared = |cost: Cost| DeclaredQuery { blocks: anywhere(), lane: Lane::Train, cost, times: 1 };
    let filter = Filter::fixed(ceiling("1", "1e-6"), vec![declared(laplace("0.8")), declared(laplace("0.2"))]).unwrap();
    let amounts = filter.price(&laplace("0.8"), Lane::Train, &anywhere()).unwrap();
    assert_eq!(odometer(&filter, &times(&amounts, 0)), Epsilon::ZERO);
    let read = odometer(&filter, &times(&amounts, 1));
    assert!(read >= Epsilon::cost("0.79").unwrap() && read <= Epsilon::cost("0.801").unwrap(), "{read}");
}

/// A large δ_g puts caps of high orders above ε_g; reading the odometer must survive that.
#[test]
fn odometers_read_under_every_ceiling() {
    for (loss, chance) in
        [("0.0001", "0.01"), ("1", "0.9"), ("0.000000000001", "0.999"), ("1000000", "0.5"), ("1", "0")]
    {
        for rule in Rule::ADAPTIVE {
            let filter = Filter::new(rule, ceiling(loss, chance)).unwrap();
            let nothing = vec![0; filter.caps().len()];
            let much = vec![u128::from(u64::MAX) << 32; filter.caps().len()];
            assert!(odometer(&filter, &nothing) <= odometer(&filter, &much), "{rule} ({loss}, {chance})");
        }
    }
}
