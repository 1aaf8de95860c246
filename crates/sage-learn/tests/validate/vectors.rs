//! Reference numbers: noise quantiles and decisions, computed elsewhere with exact or high-precision arithmetic.

#![allow(clippy::excessive_precision, clippy::unreadable_literal, reason = "numbers as they were computed")]

/// Continuous Laplace noise: ε, chance, quantile.
pub const LAPLACE_QUANTILES: &[(f64, f64, f64)] = &[
    (1.0, 0.0125, 3.6888794541139363),
    (0.1, 0.0125, 36.88879454113936),
    (0.05, 0.016666666666666666, 68.02394763324311),
    (1.0, 0.6, 0.0),
];

/// Discrete Laplace noise of whole rows: ε, chance, quantile, the chance of more than it and of more than one less.
pub const DISCRETE_LAPLACE_QUANTILES: &[(f64, f64, u64, f64, f64)] = &[
    (1.0, 0.0125, 4, 0.004925833956035729, 0.013389804932698453),
    (0.1, 0.0125, 37, 0.011744189632326525, 0.01297933683801281),
    (0.5, 0.01, 8, 0.006914898555518023, 0.011400740333216157),
    (5.0, 0.1, 0, 0.006692850924284856, 0.9933071490757153),
    (5.0, 0.0125, 0, 0.006692850924284856, 0.9933071490757153),
];

/// A decision about a loss.
pub struct Loss {
    pub above: f64,
    pub below: f64,
    pub epsilon: f64,
    pub risk: f64,
    pub target: f64,
    pub reach: f64,
    pub threshold: f64,
    /// The exponent; NaN if the decision does not use it.
    pub evidence: f64,
    pub decides: bool,
}

/// Accepting, with continuous Laplace noise.
pub const LOSS_ACCEPT: &[Loss] = &[
    Loss {
        above: 10.0,
        below: 9990.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.005,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 18.644184914726015,
        decides: true,
    },
    Loss {
        above: 20.0,
        below: 9980.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.005,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 8.649875111252868,
        decides: true,
    },
    Loss {
        above: 30.0,
        below: 9970.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.005,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 3.0222531867868376,
        decides: false,
    },
    Loss {
        above: 0.3,
        below: 40.2,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.3,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 4.794054153292822,
        decides: true,
    },
    Loss {
        above: -3.0,
        below: 50.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.3,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 13.754576942480936,
        decides: true,
    },
    Loss {
        above: 2.0,
        below: 3.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.5,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: f64::NAN,
        decides: false,
    },
    Loss {
        above: 100.0,
        below: 900.0,
        epsilon: 0.1,
        risk: 0.05,
        target: 0.3,
        reach: 36.88879454113936,
        threshold: 3.6888794541139363,
        evidence: 73.38523151771008,
        decides: true,
    },
    Loss {
        above: 100.0,
        below: 900.0,
        epsilon: 0.1,
        risk: 0.05,
        target: 0.2,
        reach: 36.88879454113936,
        threshold: 3.6888794541139363,
        evidence: 13.63642014037729,
        decides: true,
    },
];

/// Rejecting, with continuous Laplace noise and no gap.
pub const LOSS_REJECT: &[Loss] = &[
    Loss {
        above: 60.0,
        below: 940.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.03,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 9.507804929573297,
        decides: true,
    },
    Loss {
        above: 50.0,
        below: 950.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.04,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 0.49437245502035765,
        decides: false,
    },
    Loss {
        above: 5.0,
        below: 20.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.05,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: 0.001549226158952803,
        decides: false,
    },
    Loss {
        above: 2.0,
        below: 20.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.05,
        reach: 3.6888794541139363,
        threshold: 3.6888794541139363,
        evidence: f64::NAN,
        decides: false,
    },
];

/// A decision about an accuracy, with discrete Laplace noise of whole rows.
pub struct Accuracy {
    pub right: f64,
    pub wrong: f64,
    pub epsilon: f64,
    pub risk: f64,
    pub target: f64,
    pub reach: f64,
    /// The right and wrong predictions, shifted by the reach.
    pub moved: (f64, f64),
    /// The tail probability at the target; one if the decision does not use it.
    pub tail: f64,
    pub decides: bool,
    /// The lower limit at half the risk; NaN if it is not tested.
    pub limit: f64,
}

/// Accepting.
pub const ACCURACY_ACCEPT: &[Accuracy] = &[
    Accuracy {
        right: 800.0,
        wrong: 200.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.75,
        reach: 4.0,
        moved: (796.0, 204.0),
        tail: 0.000348601656815373,
        decides: true,
        limit: 0.7696691682398447,
    },
    Accuracy {
        right: 780.0,
        wrong: 220.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.75,
        reach: 4.0,
        moved: (776.0, 224.0),
        tail: 0.030174133022661077,
        decides: false,
        limit: 0.7488668141614596,
    },
    Accuracy {
        right: 790.0,
        wrong: 210.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.75,
        reach: 4.0,
        moved: (786.0, 214.0),
        tail: 0.004264790075155202,
        decides: true,
        limit: 0.7592568214400275,
    },
    Accuracy {
        right: 30.0,
        wrong: -2.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.5,
        reach: 4.0,
        moved: (26.0, 2.0),
        tail: 1.516193151473999e-06,
        decides: true,
        limit: 0.7649652268254092,
    },
    Accuracy {
        right: 3.0,
        wrong: 0.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.5,
        reach: 4.0,
        moved: (-1.0, 4.0),
        tail: 1.0,
        decides: false,
        limit: 0.0,
    },
    Accuracy {
        right: 7600.0,
        wrong: 2400.0,
        epsilon: 0.1,
        risk: 0.05,
        target: 0.74,
        reach: 37.0,
        moved: (7563.0, 2437.0),
        tail: 9.622757173746672e-05,
        decides: true,
        limit: 0.7477616895784018,
    },
    Accuracy {
        right: 7800.0,
        wrong: 2200.0,
        epsilon: 0.1,
        risk: 0.05,
        target: 0.74,
        reach: 37.0,
        moved: (7763.0, 2237.0),
        tail: 2.288791775850704e-17,
        decides: true,
        limit: 0.7680025377037023,
    },
];

/// Rejecting.
pub const ACCURACY_REJECT: &[Accuracy] = &[
    Accuracy {
        right: 700.0,
        wrong: 300.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.75,
        reach: 4.0,
        moved: (704.0, 296.0),
        tail: 0.0005429440673945537,
        decides: true,
        limit: f64::NAN,
    },
    Accuracy {
        right: 730.0,
        wrong: 270.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.75,
        reach: 4.0,
        moved: (734.0, 266.0),
        tail: 0.12916125188605487,
        decides: false,
        limit: f64::NAN,
    },
    Accuracy {
        right: 5.0,
        wrong: 3.0,
        epsilon: 1.0,
        risk: 0.05,
        target: 0.9,
        reach: 4.0,
        moved: (9.0, -1.0),
        tail: 1.0,
        decides: false,
        limit: f64::NAN,
    },
];

/// Clopper and Pearson: successes, trials, chance on each side, limits.
pub const CLOPPER_PEARSON: &[(f64, f64, f64, f64, f64)] = &[
    (750.0, 1000.0, 0.05, 0.7264463686762799, 0.7724565203283908),
    (0.0, 10.0, 0.05, 0.0, 0.2588655508930522),
    (10.0, 10.0, 0.05, 0.7411344491069477, 1.0),
    (7.5, 10.25, 0.025, 0.3814383680317837, 0.9464755057546073),
];

/// A released mean, with continuous Laplace noise.
pub struct Sum {
    pub above: f64,
    pub below: f64,
    pub epsilon: f64,
    pub risk: f64,
    pub reach: f64,
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub half_width: f64,
}

/// Means and their limits.
pub const SUMS: &[Sum] = &[
    Sum {
        above: 500.0,
        below: 500.0,
        epsilon: 1.0,
        risk: 0.05,
        reach: 4.382026634673881,
        mean: 0.5,
        low: 0.44893940858146014,
        high: 0.5510605914185398,
        half_width: 0.05106059141853986,
    },
    Sum {
        above: 10.0,
        below: 9990.0,
        epsilon: 1.0,
        risk: 0.05,
        reach: 4.382026634673881,
        mean: 0.001,
        low: 0.00011661694698392152,
        high: 0.0028681160483660846,
        half_width: 0.0018681160483660845,
    },
    Sum {
        above: 3000.0,
        below: 7000.0,
        epsilon: 0.1,
        risk: 0.05,
        reach: 43.82026634673881,
        mean: 0.3,
        low: 0.28223108647494766,
        high: 0.3181157499050052,
        half_width: 0.018115749905005196,
    },
];

/// The incomplete beta function: x, a, b, value.
pub const BETA: &[(f64, f64, f64, f64)] = &[
    (0.5, 1.0, 1.0, 0.5),
    (0.3, 2.5, 4.25, 0.37956047815732746),
    (0.75, 796.0, 205.0, 0.0003486016568153758),
    (0.75, 700.5, 301.25, 0.9998538218288101),
    (0.01, 1.0, 50.0, 0.39499393286246337),
    (0.001, 1.0, 1.0, 0.001),
    (0.001, 20.5, 10000.0, 0.002394568557734289),
    (0.95, 9600.0, 401.0, 1.2070946639624404e-06),
    (0.95, 9580.25, 420.5, 8.407398454697985e-05),
    (0.9, 1.5, 1.0, 0.8538149682454624),
    (0.5, 1000.0, 100.0, 2.1135214510191582e-188),
    (0.2, 500.75, 500.0, 1.2959568019347721e-99),
    (0.005, 5400.0, 994601.0, 1.1119204582147064e-08),
    (0.3, 1.0, 1000.0, 1.0),
    (0.7, 100.0, 1.0, 3.2344765096247375e-16),
    (0.05, 0.5, 0.5, 0.14356629312870628),
    (0.999, 5000.0, 1.25, 0.01157887494939193),
    (0.6, 60800.5, 39200.0, 1.1606063038841367e-07),
    (0.1, 51.0, 49.0, 3.434527341286344e-25),
    (0.02, 60.0, 60.0, 1.7250627114610378e-68),
];

/// Rows at which a model better than its target is accepted nine times in ten, at a risk of 0.05: target, true
/// mean, ε in units of 10^-12, rows for a loss, rows for an accuracy (of one less each).
pub const POWER: &[(f64, f64, u64, u64, u64)] = &[
    (0.005, 0.004, 50_000_000_000, 211134, 191940),
    (0.005, 0.004, 250_000_000_000, 108345, 81401),
    (0.005, 0.004, 1_000_000_000_000, 81401, 61158),
    (0.005, 0.0025, 50_000_000_000, 67273, 61158),
    (0.005, 0.0025, 250_000_000_000, 23579, 17715),
    (0.005, 0.0025, 1_000_000_000_000, 13309, 9999),
    (0.05, 0.04, 50_000_000_000, 21435, 17715),
    (0.05, 0.04, 250_000_000_000, 9999, 7513),
    (0.05, 0.04, 1_000_000_000_000, 8264, 5644),
    (0.3, 0.25, 50_000_000_000, 4240, 3504),
    (0.3, 0.25, 250_000_000_000, 1978, 1486),
    (0.3, 0.25, 1_000_000_000_000, 1486, 1116),
];
