//! The numbers of `sage account` against reference values from outside the project.

use crate::{answer, number, words};

/// One row: the flags, the field, and the least and the most it may be.
///
/// Training runs: Rényi at most the integer-order value of other accountants, and never below what
/// numerical composition gives from below. Gaussians: Balle and Wang's exact values.
#[test]
fn epsilons_lie_where_other_accountants_put_them() {
    for (line, field, least, most) in [
        ("--sampled-gaussian q=0.01,sigma=1,steps=1000 --delta 1e-6", "epsilon_rdp", 2.4, 2.436_694),
        ("--sampled-gaussian q=0.01,sigma=1,steps=1000 --delta 1e-5", "epsilon_rdp", 2.0, 2.107_754),
        ("--sampled-gaussian q=0.01,sigma=1,steps=10000 --delta 1e-5", "epsilon_rdp", 6.2, 6.712_8),
        ("--sampled-gaussian q=0.01,sigma=1,steps=10000 --delta 1e-5", "epsilon_pld", 6.177_3, 6.192),
        ("--sampled-gaussian q=0.0002048,sigma=1,steps=15000 --delta 1e-6", "epsilon_rdp", 0.6, 0.680_51),
        ("--sampled-gaussian q=0.0002048,sigma=1,steps=15000 --delta 1e-6", "epsilon_pld", 0.125, 0.127),
        ("--gaussian sigma=4.2246788893 --delta 1e-6", "epsilon_pld", 0.999_999, 1.000_001),
        ("--gaussian sigma=4.2246788893 --delta 1e-6", "epsilon_basic", 0.999_999, 1.000_001),
        ("--gaussian sigma=42.246788893,count=100 --delta 1e-6", "epsilon_pld", 0.999_999, 1.000_001),
        ("--pure epsilon=0.1,count=10 --delta 1e-6", "epsilon_basic", 1.0, 1.0),
        ("--laplace scale=10,count=3 --delta 1e-9", "epsilon_basic", 0.3, 0.3),
        ("--laplace scale=10,count=3 --delta 1e-9", "epsilon_rdp", 0.299, 0.3),
        ("--sampled-gaussian q=0.01,sigma=1e-9,steps=1 --delta 1e-6", "epsilon_rdp", 1e17, 1e300),
        ("--sampled-gaussian q=0.01,sigma=1e-9,steps=1 --delta 1e-6", "epsilon_pld", 1e17, 1e300),
    ] {
        let found = number(&answer(line), field);
        assert!((least..=most).contains(&found), "{line}: {field} is {found}, not in {least}..={most}");
    }
}

#[test]
fn the_routes_are_ordered_for_a_training_run() {
    let found = answer("--sampled-gaussian q=0.01,sigma=1,steps=1000 --delta 1e-6");
    assert!(number(&found, "epsilon_pld") <= number(&found, "epsilon_rdp"));
    assert_eq!(found["neighbours"], "add/remove one row");
    assert_eq!(found["mechanisms"][0]["kind"], "sampled-gaussian");
    assert_eq!(found["mechanisms"][0]["steps"], 1000);
    assert_eq!(number(&found["mechanisms"][0], "q"), 0.01);
    assert_eq!(number(&found, "delta"), 1e-6);
}

#[test]
fn flags_repeat_and_compose() {
    let one = answer("--gaussian sigma=50,count=10 --laplace scale=10 --delta 1e-6");
    let split = answer("--laplace scale=10 --gaussian sigma=50,count=4 --gaussian count=6,sigma=50 --delta 1e-6");
    for field in ["epsilon_rdp", "epsilon_pld", "epsilon_basic"] {
        let (one, split) = (number(&one, field), number(&split, field));
        assert!((one - split).abs() <= 1e-9 * one, "{field}: {one} and {split}");
    }
    let all = answer(
        "--sampled-gaussian q=0.01,sigma=1,steps=1000 --gaussian sigma=50,count=10 --laplace scale=10,count=3 \
         --pure epsilon=0.1,count=2 --black-box epsilon=0.1,delta=1e-9,count=5 --zcdp rho=0.01 --delta 1e-6",
    );
    assert_eq!(all["mechanisms"].as_array().map(Vec::len), Some(6));
    assert!(all["epsilon_pld"].is_null());
    assert_eq!(all["unavailable"]["epsilon_pld"], "a zCDP bound has no privacy-loss distribution");
    assert!(number(&all, "epsilon_rdp") < number(&all, "epsilon_basic"));
}

#[test]
fn a_delta_that_black_boxes_use_up_leaves_no_epsilon() {
    let found = answer("--black-box epsilon=0.1,delta=1e-6,count=2 --gaussian sigma=9 --delta 1e-6");
    for field in ["epsilon_rdp", "epsilon_pld", "epsilon_basic"] {
        assert!(found[field].is_null(), "{field}");
        assert!(found["unavailable"][field].is_string(), "{field}");
    }
}

/// One row: the open mechanism with its surroundings, target, field, the most that is right.
#[test]
fn calibrated_noise_meets_its_target_and_is_hardly_more_than_needed() {
    for (open, target, field, most, most_by_orders) in [
        ("--sampled-gaussian q=0.01,sigma=?,steps=1000", "1", "sigma", 1.6, 1.660_98),
        ("--sampled-gaussian q=0.01,sigma=?,steps=1000", "0.5", "sigma", 2.8, 2.901_33),
        ("--gaussian sigma=?", "1", "sigma", 4.224_69, 4.8),
        ("--laplace scale=?", "1", "scale", 1.0, 1.0),
        ("--laplace scale=?,count=100 --gaussian sigma=50", "1", "scale", 45.0, 50.0),
    ] {
        let found = answer(&format!("{open} --delta 1e-6 --target-epsilon {target}"));
        let noise = number(&found, field);
        let by_orders = number(&found, &format!("{field}_rdp"));
        assert!(noise <= most && by_orders <= most_by_orders, "{open}: {noise}, {by_orders}");
        assert!(noise <= by_orders * (1.0 + 1e-5), "{open}: {noise} by distribution, {by_orders} by orders");
        let target: f64 = target.parse().expect("a number");
        assert!(number(&found, "epsilon_pld") <= target, "{open}");
        assert!(number(&found, "epsilon_pld") >= 0.999 * target, "{open}: more noise than needed");
        // With the noise filled in, both results are within the target.
        for (noise, route) in [(noise, "epsilon_pld"), (by_orders, "epsilon_rdp")] {
            let closed = open.replace('?', &noise.to_string());
            let again = answer(&format!("{closed} --delta 1e-6"));
            assert!(number(&again, route) <= target, "{closed}: {again}");
        }
        assert_eq!(
            found["mechanisms"]
                .as_array()
                .and_then(|all| { all.iter().find(|one| one["calibrated"] == field).map(|one| one[field].clone()) }),
            Some(found[field].clone())
        );
    }
}

/// The tables of the theory, section 3.6: how often a query fits under each rule.
#[test]
fn as_many_fit_as_the_tables_say() {
    let rules = ["basic", "strong", "whitehouse", "rogers", "renyi"];
    for (line, policy, counts) in [
        ("--black-box epsilon=0.1,delta=1e-9", "1,1e-6", [10, 4, 3, 1, 10]),
        ("--laplace scale=10", "1,1e-6", [10, 4, 3, 1, 10]),
        ("--laplace scale=100", "1,1e-6", [100, 458, 333, 147, 438]),
        ("--gaussian sigma=50", "1,1e-6", [9, 114, 3, 1, 108]),
        ("--laplace scale=10", "10,1e-7", [100, 261, 232, 115, 258]),
        ("--black-box epsilon=0.1,delta=1e-9", "10,1e-7", [100, 50, 50, 50, 50]),
    ] {
        let found = answer(&format!("{line} --policy {policy}"));
        let fits = rules.map(|rule| found["fits"][rule].as_u64().expect("a count"));
        assert_eq!(fits, counts, "{line} under {policy}");
    }
}

#[test]
fn a_person_gets_a_table_and_a_sentence() {
    let output = crate::sage(words("account --gaussian sigma=50 --zcdp rho=0.01 --policy 1,1e-6"));
    let text = crate::stdout(&output);
    for part in [
        "gaussian          sigma=50  count=1\n",
        "  pld    not available: a zCDP bound has no privacy-loss distribution\n",
        "(the default filter)",
        "One row more or less changes the probability of any outcome",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line), "{text}");
}
