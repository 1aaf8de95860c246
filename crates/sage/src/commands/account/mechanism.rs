//! The mechanism flags of `sage account`: from text to releases, and back to names and numbers.

use sage_engine::account::Release;
use sage_engine::{Delta, Epsilon, Sigma};

use crate::cli::AccountArgs;
use crate::failure::Failure;
use crate::fields::{FAILURE, Fields, LOSS, LOSS_OR_NONE, NOISE, Number, RATE, SCALE};

/// The most mechanism flags of one command.
const MOST_MECHANISMS: usize = 1024;

/// A set of mechanisms, at most one of them with its noise left open.
#[derive(Debug)]
pub(crate) struct MechanismSet {
    releases: Vec<Release>,
    open: Option<usize>,
}

impl MechanismSet {
    /// Reads all mechanism flags, kind by kind.
    pub(crate) fn read(flags: &AccountArgs) -> Result<Self, Failure> {
        let kinds: [(&[String], Reader); 6] = [
            (&flags.sampled_gaussian, sampled_gaussian),
            (&flags.gaussian, gaussian),
            (&flags.laplace, laplace),
            (&flags.pure, pure),
            (&flags.black_box, black_box),
            (&flags.zcdp, zcdp),
        ];
        let given: usize = kinds.iter().map(|(texts, _)| texts.len()).sum();
        if given == 0 {
            return Err(Failure::usage(
                "name at least one mechanism: --sampled-gaussian, --gaussian, --laplace, --pure, \
                 --black-box or --zcdp",
                "sage account --gaussian sigma=50,count=10 --delta 1e-6",
            ));
        }
        if given > MOST_MECHANISMS {
            return Err(Failure::usage(
                format!("too many mechanisms: at most {MOST_MECHANISMS} flags, got {given}"),
                "write equal ones as one, with count=: --gaussian sigma=50,count=10",
            ));
        }
        let mut set = Self { releases: Vec::with_capacity(given), open: None };
        for (texts, reader) in kinds {
            for text in texts {
                let (release, noise) = reader(text)?;
                if noise == Noise::Open && set.open.replace(set.releases.len()).is_some() {
                    return Err(Failure::usage(
                        "only one mechanism may be left open with ?",
                        "fix all but one: --gaussian sigma=50 --sampled-gaussian q=0.01,sigma=?,steps=1000",
                    ));
                }
                set.releases.push(release);
            }
        }
        Ok(set)
    }

    /// The mechanism left open, if there is one: its index and the name of its open field.
    pub(crate) fn open(&self) -> Option<(usize, &'static str)> {
        let index = self.open?;
        let field = if matches!(self.releases[index], Release::Laplace { .. }) { "scale" } else { "sigma" };
        Some((index, field))
    }

    /// The mechanisms, with this noise where it was left open.
    pub(crate) fn with_noise(&self, noise: Sigma) -> Vec<Release> {
        let mut releases = self.releases.clone();
        if let Some(open) = self.open {
            match &mut releases[open] {
                Release::SampledGaussian { sigma: field, .. }
                | Release::Gaussian { sigma: field, .. }
                | Release::Laplace { scale: field, .. } => *field = noise,
                Release::Pure { .. } | Release::BlackBox { .. } | Release::Zcdp { .. } => {}
            }
        }
        releases
    }

    /// The mechanisms, if none is left open.
    pub(crate) fn releases(&self) -> Vec<Release> {
        self.releases.clone()
    }
}

/// Whether a mechanism's noise was given.
#[derive(Clone, Copy, PartialEq)]
enum Noise {
    Given,
    Open,
}

type Reader = fn(&str) -> Result<(Release, Noise), Failure>;

/// The noise of a mechanism; the largest possible noise while it is open.
fn noise(fields: &Fields<'_>, name: &str, kind: &Number<Sigma>) -> Result<(Sigma, Noise), Failure> {
    if fields.optional(name) == Some("?") {
        return Ok((Sigma::LIMIT, Noise::Open));
    }
    Ok((fields.number(name, kind)?, Noise::Given))
}

fn sampled_gaussian(text: &str) -> Result<(Release, Noise), Failure> {
    let example = "q=0.01,sigma=1,steps=1000";
    let fields = Fields::read("--sampled-gaussian", example, &["q", "sigma", "steps"], text)?;
    let rate = fields.number("q", &RATE)?;
    let (sigma, noise) = noise(&fields, "sigma", &NOISE)?;
    Ok((Release::SampledGaussian { rate, sigma, steps: fields.steps("steps")? }, noise))
}

fn gaussian(text: &str) -> Result<(Release, Noise), Failure> {
    let fields = Fields::read("--gaussian", "sigma=50,count=10", &["sigma", "count"], text)?;
    let (sigma, noise) = noise(&fields, "sigma", &NOISE)?;
    Ok((Release::Gaussian { sigma, count: fields.count("count")? }, noise))
}

fn laplace(text: &str) -> Result<(Release, Noise), Failure> {
    let fields = Fields::read("--laplace", "scale=10,count=3", &["scale", "count"], text)?;
    let (scale, noise) = noise(&fields, "scale", &SCALE)?;
    Ok((Release::Laplace { scale, count: fields.count("count")? }, noise))
}

fn pure(text: &str) -> Result<(Release, Noise), Failure> {
    let fields = Fields::read("--pure", "epsilon=0.1,count=2", &["epsilon", "count"], text)?;
    let epsilon = fields.number("epsilon", &LOSS)?;
    Ok((Release::Pure { epsilon, count: fields.count("count")? }, Noise::Given))
}

fn black_box(text: &str) -> Result<(Release, Noise), Failure> {
    let example = "epsilon=0.1,delta=1e-9,count=5";
    let fields = Fields::read("--black-box", example, &["epsilon", "delta", "count"], text)?;
    let epsilon = fields.number("epsilon", &LOSS_OR_NONE)?;
    let delta = fields.number("delta", &FAILURE)?;
    if epsilon == Epsilon::ZERO && delta == Delta::ZERO {
        return Err(Failure::usage(
            "--black-box: epsilon and delta cannot both be 0: nothing is free",
            format!("--black-box {example}"),
        ));
    }
    Ok((Release::BlackBox { epsilon, delta, count: fields.count("count")? }, Noise::Given))
}

fn zcdp(text: &str) -> Result<(Release, Noise), Failure> {
    let fields = Fields::read("--zcdp", "rho=0.01,count=2", &["rho", "count"], text)?;
    let rho = fields.number("rho", &LOSS)?;
    Ok((Release::Zcdp { rho, count: fields.count("count")? }, Noise::Given))
}
