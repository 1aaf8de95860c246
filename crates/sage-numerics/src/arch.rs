//! The instruction set that the hot loops use, chosen once for the whole process.
//!
//! Every hot loop is compiled for several instruction sets. A process uses the widest one that its processor has,
//! unless the environment variable [`InstructionSet::VARIABLE`] names another that the processor has too. That is
//! for measurements and tests: results are the same on every instruction set, to the last bit. Code outside this
//! file must not detect features of the processor itself, or a measurement of one instruction set would silently
//! measure another.

use std::sync::OnceLock;

use pulp::{Arch, WithSimd};

/// An instruction set that the hot loops are compiled for, the narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// The baseline of the architecture: on x86-64, SSE2.
    Scalar,
    /// The vector instructions of processors other than x86-64, such as NEON.
    Native,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 with F, BW, CD, DQ and VL.
    Avx512,
    /// AVX-512 and its VNNI instructions, which multiply and add in one step.
    Avx512Vnni,
}

impl InstructionSet {
    /// The environment variable that selects an instruction set by its name. The widest one is used if the variable
    /// is not set, has an unknown name, or names a set that the processor does not have.
    pub const VARIABLE: &str = "SAGE_ARCH";

    const ALL: [Self; 5] = [Self::Scalar, Self::Native, Self::Avx2, Self::Avx512, Self::Avx512Vnni];

    /// The name, as in [`Self::VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Native => "native",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512vnni",
        }
    }

    /// The instruction set that this process uses. It is chosen at the first call and never changes afterwards.
    pub fn current() -> Self {
        static CURRENT: OnceLock<InstructionSet> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::choose(std::env::var(Self::VARIABLE).ok().as_deref(), &Self::available()))
    }

    /// The instruction sets that this processor has, the narrowest first.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|set| set.detect().is_some()).collect()
    }

    fn choose(requested: Option<&str>, available: &[Self]) -> Self {
        let named = available.iter().find(|set| requested == Some(set.name()));
        named.or(available.last()).copied().unwrap_or(Self::Scalar)
    }

    /// Runs an operation compiled for this instruction set, or for [`Self::Scalar`] if the processor does not have it.
    #[inline(always)]
    pub fn dispatch<O: WithSimd>(self, operation: O) -> O::Output {
        self.detect().unwrap_or(Arch::Scalar).dispatch(operation)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn detect(self) -> Option<Arch> {
        let wide = || pulp::x86::V4::try_new().map(Arch::V4);
        match self {
            Self::Scalar => Some(Arch::Scalar),
            Self::Native => None,
            Self::Avx2 => pulp::x86::V3::try_new().map(Arch::V3),
            Self::Avx512 => wide(),
            Self::Avx512Vnni => DotProducts::try_new().and_then(|_| wide()),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn detect(self) -> Option<Arch> {
        match self {
            Self::Scalar => Some(Arch::Scalar),
            Self::Native => Some(Arch::new()).filter(|arch| !matches!(arch, Arch::Scalar)),
            _ => None,
        }
    }
}

/// Runs an operation compiled for the instruction set that this process uses.
#[inline(always)]
pub fn dispatch<O: WithSimd>(operation: O) -> O::Output {
    InstructionSet::current().dispatch(operation)
}

#[cfg(target_arch = "x86_64")]
pulp::simd_type! {
    /// AVX-512 with VNNI. Where a product of 16-bit numbers is added to a sum, the compiler then uses one
    /// instruction instead of two, which saves a third of the time and changes no sum.
    pub(crate) struct DotProducts {
        sse: "sse",
        sse2: "sse2",
        fxsr: "fxsr",
        sse3: "sse3",
        ssse3: "ssse3",
        sse4_1: "sse4.1",
        sse4_2: "sse4.2",
        popcnt: "popcnt",
        avx: "avx",
        avx2: "avx2",
        bmi1: "bmi1",
        bmi2: "bmi2",
        fma: "fma",
        lzcnt: "lzcnt",
        avx512f: "avx512f",
        avx512bw: "avx512bw",
        avx512cd: "avx512cd",
        avx512dq: "avx512dq",
        avx512vl: "avx512vl",
        avx512vnni: "avx512vnni",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_selects_only_what_the_processor_has() {
        use InstructionSet::{Avx2, Avx512, Scalar};
        let check = |requested: Option<&str>, available: &[InstructionSet], expected: InstructionSet| {
            assert_eq!(InstructionSet::choose(requested, available), expected, "{requested:?} of {available:?}");
        };
        check(None, &[Scalar, Avx2, Avx512], Avx512);
        check(Some("avx2"), &[Scalar, Avx2, Avx512], Avx2);
        check(Some("scalar"), &[Scalar, Avx2, Avx512], Scalar);
        check(Some("avx512"), &[Scalar, Avx2], Avx2);
        for unknown in ["", "AVX2", "avx2 ", "neon"] {
            check(Some(unknown), &[Scalar, Avx2], Avx2);
        }
        check(Some("avx2"), &[], Scalar);
    }

    /// Without its feature `x86-v3` pulp has no AVX2, and a processor with AVX2 alone ran every loop on SSE2.
    #[test]
    fn every_set_runs_its_own_instructions() {
        struct Lanes;
        impl WithSimd for Lanes {
            type Output = usize;
            #[inline(always)]
            fn with_simd<S: pulp::Simd>(self, _: S) -> usize {
                S::F32_LANES
            }
        }
        for set in InstructionSet::available() {
            let expected = match set {
                InstructionSet::Scalar => 1..2,
                InstructionSet::Native => 2..usize::MAX,
                InstructionSet::Avx2 => 8..9,
                InstructionSet::Avx512 | InstructionSet::Avx512Vnni => 16..17,
            };
            let lanes = set.dispatch(Lanes);
            assert!(expected.contains(&lanes), "{}: {lanes}", set.name());
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            InstructionSet::available().contains(&InstructionSet::Avx2),
            std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        );
    }

    #[test]
    fn a_set_that_the_processor_lacks_runs_as_scalar() {
        let lacking = InstructionSet::ALL.into_iter().find(|set| !InstructionSet::available().contains(set));
        assert!(lacking.is_some_and(|set| set.dispatch(Scalar)), "x86-64 has no NEON, and others have no AVX");

        struct Scalar;
        impl WithSimd for Scalar {
            type Output = bool;
            #[inline(always)]
            fn with_simd<S: pulp::Simd>(self, _: S) -> bool {
                S::IS_SCALAR
            }
        }
    }
}
