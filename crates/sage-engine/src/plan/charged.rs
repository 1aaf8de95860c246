//! The cost of a charged attempt, read from its charge instead of being computed again.
//!
//! An attempt can be charged by one process and performed by the next, which may be a later release or have newer
//! public data, such as a census. Its noise must be that of the charge, whatever the attempt would cost now.

use sage_kernel::{Cost, Mechanism, Sigma, TableNoise};

use super::attempt_cost::{AttemptCost, StageNoise, TrainingNoise, test_count};
use super::price::least_sigma_of_table;
use super::{Recipe, uses_both_lanes};
use crate::allocate::Resources;
use crate::pipeline::Train;
use crate::run::releases_label_sums;

impl AttemptCost {
    /// The attempt cost that these recorded charges of the train and the test lane, and these allocated resources, came
    /// from. `None` if the pipeline is not charged in this form.
    pub(crate) fn as_charged(recipe: &Recipe, costs: [Option<Cost>; 2], resources: Resources) -> Option<Self> {
        let [train, test] = costs.each_ref().map(|cost| cost.as_ref().map_or(&[][..], Cost::parts));
        let pipeline = recipe.pipeline();
        let unfitted =
            |inputs: &super::Inputs| inputs.encoding().joins().filter(|(.., join)| join.table.is_empty()).count();
        let joins = recipe.inputs().map_or(0, unfitted);
        let rejects = pipeline.validate.as_ref().is_some_and(|validate| validate.reject);
        let features = if joins > 0 { Some(charged_table_noise(train.first()?)?) } else { None };
        let reject = match train.last() {
            Some(Mechanism::Laplace { epsilon, .. }) if rejects => Some(*epsilon),
            _ if rejects => return None,
            _ => None,
        };
        let constant = match pipeline.compares_with_constant() {
            true => Some(charged_table_noise(train.last()?)?),
            false => None,
        };
        let end = train.len().checked_sub(usize::from(reject.is_some()) + usize::from(constant.is_some()))?;
        let trained = trained(recipe, train.get(joins..end)?)?;
        let validate = match &pipeline.train {
            Train::Statistic(statistic) if !uses_both_lanes(statistic) && !test.is_empty() => return None,
            Train::Statistic(_) => None,
            _ if test.len() < test_count(recipe) as usize => return None,
            _ => Some(charged_table_noise(test.first()?)?),
        };
        // Earlier versions charged the test alone.
        let labels = match test.get(test_count(recipe) as usize) {
            Some(part) if releases_label_sums(&pipeline.train, pipeline.validate.as_ref()) => {
                Some(charged_table_noise(part)?)
            }
            _ => None,
        };
        let noises = StageNoise { features, train: trained, reject, validate, constant, labels };
        Some(Self { costs, resources, noises })
    }
}

/// The noise of training that parts of the charge paid for.
fn trained(recipe: &Recipe, parts: &[Mechanism]) -> Option<TrainingNoise> {
    match (&recipe.pipeline().train, parts) {
        (Train::Model(learner), _) => {
            learner.matches_charge(recipe.inputs()?, parts).then(|| TrainingNoise::Model(parts.to_vec()))
        }
        (Train::Statistic(_), [part, ..]) => charged_table_noise(part).map(TrainingNoise::Tables),
        (Train::Released { .. }, []) => Some(TrainingNoise::Nothing),
        (Train::Command { .. }, [Mechanism::BlackBox { epsilon, delta }, ..]) => {
            Some(TrainingNoise::Declared(*epsilon, *delta))
        }
        _ => None,
    }
}

/// The noise of a table that a part of the charge pays for; a hair more than it would pay for, where it is Gaussian.
pub(crate) fn charged_table_noise(part: &Mechanism) -> Option<TableNoise> {
    match part {
        Mechanism::Laplace { epsilon, count: 1 } => Some(TableNoise::Laplace(*epsilon)),
        Mechanism::Zcdp { rho } => {
            let pays = |sigma: Sigma| match TableNoise::Gaussian(sigma).mechanism() {
                Ok(Mechanism::Zcdp { rho: own }) => own <= *rho,
                _ => false,
            };
            least_sigma_of_table(pays).map(TableNoise::Gaussian)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sage_kernel::{Ceiling, Delta, Epsilon, Filter, Rule};

    use super::*;
    use crate::generate::TAXI;
    use crate::pipeline::Pipeline;
    use crate::plan::{CostInputs, NoTables, Terms};
    use crate::stream::StreamFile;

    const LINE: &str = r#"
[pipeline]
name = "line"
stream = "taxi"
label = { sql = "duration / 3600", bounds = [0, 2.5] }
features = [
  { column = "distance", scale = [0, 30] },
  { group_mean = "distance", by = "extract(hour from pickup)", name = "usual", keys = 24, bounds = [0, 60] },
]
[train]
kind = "ridge"
[validate]
metric = "mse"
target = 0.1
bound = 1.0
reject = true
"#;

    fn near(one: Sigma, two: Sigma) -> bool {
        one.units().abs_diff(two.units()) <= one.units() / 1000
    }

    fn alike(one: Option<TableNoise>, two: Option<TableNoise>) -> bool {
        match (one, two) {
            (Some(TableNoise::Gaussian(one)), Some(TableNoise::Gaussian(two))) => near(one, two),
            (one, two) => one == two,
        }
    }

    /// The cost read from a charge equals the cost it was made for, for every kind of pipeline under every rule.
    #[test]
    fn a_cost_is_recovered_from_its_charge() {
        let network =
            LINE.replace("kind = \"ridge\"", "kind = \"mlp\"\nlayers = [8]\nrows = 4000").replace("reject = true", "");
        let logistic = network
            .replace("kind = \"mlp\"\nlayers = [8]", "kind = \"logistic\"")
            .replace("label = { sql = \"duration / 3600\", bounds = [0, 2.5] }", "label = { truth = \"distance > 2\" }")
            .replace("metric = \"mse\"", "metric = \"log_loss\"");
        let (head, _) = LINE.split_once("label").expect("a label");
        let mean =
            format!("{head}[train]\nkind = \"statistic\"\nstatistic = \"mean\"\nof = \"distance\"\nbounds = [0, 9]\n");
        let count = format!("{head}[train]\nkind = \"statistic\"\nstatistic = \"count\"\n");
        let test = "[validate]\nmetric = \"mse\"\ntarget = 0.1\nbound = 1.0\n";
        let command = format!("{head}label = \"duration\"\n[train]\ncommand = [\"true\"]\n{test}");
        let constant = LINE.replace("reject = true", "").replace("target = 0.1", "better_than = \"constant\"");
        assert!(constant.contains("better_than"));
        let several = format!("{LINE}[[validate.also]]\nmetric = \"absolute\"\ntarget = 0.2\nbound = 1.0\n");
        let file = StreamFile::parse(TAXI).expect("a file");
        let (epsilon, delta) = (Epsilon::ceiling("4").expect("a number"), Delta::ceiling("1e-6").expect("a number"));
        let ceiling = Ceiling { epsilon, delta };
        for rule in [Rule::Basic, Rule::Strong, Rule::Renyi] {
            let filter = Filter::new(rule, ceiling).expect("a filter");
            for text in [LINE, &network, &logistic, &mean, &count, &command, &constant, &several] {
                let pipeline = Pipeline::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                let terms = Terms::new(&pipeline, &file, &filter).expect("terms");
                let recipe = Recipe::new(pipeline, &file, &NoTables).expect("a recipe");
                let known = CostInputs { filter: &filter, terms, cost: terms.first_cost, rows: Some(4000.0) };
                let cost = AttemptCost::new(&recipe, known).expect("a cost");
                for lane in sage_kernel::Lane::BOTH {
                    assert!(cost.resources.loss(lane) <= terms.first_cost, "{lane:?} of {:?}: {text}", filter.rule());
                }
                let found = AttemptCost::as_charged(&recipe, cost.costs.clone(), cost.resources);
                let found = found.unwrap_or_else(|| panic!("{:?}: {text}", filter.rule()));
                assert_eq!((&found.costs, found.resources), (&cost.costs, cost.resources), "{rule:?}");
                assert_eq!(found.noises.reject, cost.noises.reject);
                assert!(alike(found.noises.features, cost.noises.features), "{found:?} {cost:?}");
                assert!(alike(found.noises.validate, cost.noises.validate), "{found:?} {cost:?}");
                assert!(alike(found.noises.constant, cost.noises.constant), "{found:?} {cost:?}");
                assert_eq!(found.noises.constant.is_some(), *text == *constant);
                assert!(alike(found.noises.labels, cost.noises.labels), "{found:?} {cost:?}");
                let [_, test] = cost.costs.clone();
                let tests = test_count(&recipe) as usize;
                let alone =
                    test.map(|test| Cost::new(test.parts()[..tests.min(test.parts().len())].to_vec()).expect("a cost"));
                let earlier = AttemptCost::as_charged(&recipe, [cost.costs[0].clone(), alone], cost.resources);
                assert!(earlier.is_some_and(|earlier| earlier.noises.labels.is_none()), "{text}");
                match (&found.noises.train, &cost.noises.train) {
                    (TrainingNoise::Tables(one), TrainingNoise::Tables(two)) => assert!(alike(Some(*one), Some(*two))),
                    (one, two) => assert_eq!(one, two),
                }
                let other = AttemptCost::as_charged(&recipe, [None, None], cost.resources);
                assert!(other.is_none(), "an empty charge does not fit this pipeline");
            }
        }
    }
}
