//! What the machine code of a kernel takes of a multiprocessor, as ptxas reports it.

use rayon::prelude::*;

use super::{GpuError, budget_of, compile, sources};

/// A kernel and what it takes on each architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The kernel.
    pub kernel: String,
    /// Its file.
    pub file: &'static str,
    /// A letter for each parameter ([`super::Arg`]).
    pub parameters: String,
    /// The registers that a thread may take.
    pub limit: usize,
    /// What it takes, in the order in which architectures were asked for; none where ptxas says nothing of it.
    pub on: Vec<Option<Resources>>,
}

impl Checked {
    /// What is wrong with it on any architecture; empty if nothing is.
    pub fn problems(&self, archs: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for (arch, on) in archs.iter().zip(&self.on) {
            match on {
                None => found.push(format!("{arch}: the compiler says nothing of it")),
                Some(of) if of.is_local() => found.push(format!(
                    "{arch}: a stack of {} bytes, {} bytes spilled and {} fetched back",
                    of.stack, of.spill_stores, of.spill_loads
                )),
                Some(of) if of.registers > self.limit => {
                    found.push(format!("{arch}: {} registers, at most {}", of.registers, self.limit));
                }
                Some(_) => {}
            }
        }
        found
    }

    /// Its most registers on any architecture.
    pub fn registers(&self) -> usize {
        self.on.iter().flatten().map(|of| of.registers).max().unwrap_or(0)
    }
}

/// Compiles all kernels for all these architectures (`sm_90`), on all processors.
///
/// # Errors
/// If there is no NVRTC, or a file does not compile.
pub fn check_kernels(archs: &[String]) -> Result<Vec<Checked>, GpuError> {
    let kernels = sources::kernels();
    let mut files: Vec<&'static str> = kernels.iter().map(|(_, file, _)| *file).collect();
    files.dedup();
    let mut jobs: Vec<(&'static str, &String)> =
        files.iter().flat_map(|file| archs.iter().map(move |arch| (*file, arch))).collect();
    // What takes longest begins first: it must not be what is left at the end.
    jobs.sort_by_key(|(file, _)| std::cmp::Reverse(sources::text(file).map_or(0, str::len)));
    let compiled = jobs
        .par_iter()
        .with_max_len(1)
        .map(|(file, arch)| Ok((*arch, Resources::of_log(&compile(file, arch)?.log))))
        .collect::<Result<Vec<_>, GpuError>>()?;
    let of = |kernel: &str, arch: &String| {
        let logs = compiled.iter().filter(|(of, _)| *of == arch);
        logs.flat_map(|(_, found)| found).find(|found| found.kernel == kernel).cloned()
    };
    Ok(kernels
        .into_iter()
        .map(|(kernel, file, parameters)| Checked {
            // Without a budget no register is allowed.
            limit: budget_of(file.trim_end_matches(".cu")).map_or(0, |budget| budget.registers()),
            on: archs.iter().map(|arch| of(&kernel, arch)).collect(),
            kernel,
            file,
            parameters,
        })
        .collect())
}

/// Of one kernel on one architecture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resources {
    /// The kernel.
    pub kernel: String,
    /// 32-bit registers of a thread.
    pub registers: usize,
    /// Bytes of local memory of a thread.
    pub stack: usize,
    /// Bytes that a thread moves to local memory for want of registers.
    pub spill_stores: usize,
    /// Bytes that it fetches back.
    pub spill_loads: usize,
    /// Bytes of shared memory of a block whose size the kernel's text says.
    pub shared: usize,
}

impl Resources {
    /// Reads a log of `--ptxas-options=-v`. A kernel of which a number is missing is left out.
    pub fn of_log(log: &str) -> Vec<Resources> {
        let mut found = Vec::new();
        let mut of: Option<Resources> = None;
        let mut has_stack = false;
        for line in log.lines() {
            if let Some((_, rest)) = line.split_once("Compiling entry function '") {
                let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
                of = Some(Resources { kernel, ..Resources::default() });
                has_stack = false;
            } else if let Some(of) = of.as_mut()
                && let (Some(stack), Some(stores), Some(loads)) = (
                    before(line, " bytes stack"),
                    before(line, " bytes spill stores"),
                    before(line, " bytes spill loads"),
                )
            {
                (of.stack, of.spill_stores, of.spill_loads) = (stack, stores, loads);
                has_stack = true;
            } else if let Some(registers) = before(line, " registers")
                && let Some(mut of) = of.take()
                && has_stack
            {
                of.registers = registers;
                of.shared = before(line, " bytes smem").unwrap_or(0);
                found.push(of);
            }
        }
        found
    }

    /// Whether a thread has local memory, which is device memory.
    pub fn is_local(&self) -> bool {
        self.stack + self.spill_stores + self.spill_loads > 0
    }
}

/// The number in front of the first such words.
fn before(line: &str, words: &str) -> Option<usize> {
    line.split_once(words)?.0.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What NVRTC 13.0 says of two kernels, the second made to spill by `--maxrregcount=16`.
    const LOG: &str = "\
ptxas info    : 80 bytes gmem
ptxas info    : Compiling entry function 'delta_net_step_d128_f32' for 'sm_90'
ptxas info    : Function properties for delta_net_step_d128_f32
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 88 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 800.104 ms
ptxas warning : For profile sm_90 adjusting per thread register count of 16 to lower bound of 24
ptxas info    : Overriding maximum register limit 256 for 'qk_norm_rope_f32' with  24 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'qk_norm_rope_f32' for 'sm_90'
ptxas info    : Function properties for qk_norm_rope_f32
ptxas         .     64 bytes stack frame, 80 bytes spill stores, 116 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 64 bytes cumulative stack size
ptxas info    : Compile time = 38.679 ms
";

    #[test]
    fn a_log_is_read() {
        let [first, second] = Resources::of_log(LOG).try_into().unwrap();
        let kernel = "delta_net_step_d128_f32".to_owned();
        assert_eq!(first, Resources { kernel, registers: 88, shared: 1024, ..Resources::default() });
        assert!(!first.is_local());
        assert_eq!((second.registers, second.stack, second.shared), (24, 64, 0));
        assert_eq!((second.spill_stores, second.spill_loads), (80, 116));
        assert!(second.is_local());
    }

    #[test]
    fn a_kernel_without_numbers_is_not_taken_for_one_that_needs_nothing() {
        let log = LOG.replace("116 bytes spill loads", "");
        assert_eq!(Resources::of_log(&log).len(), 1);
        let log = LOG.replace("Used 24 registers", "");
        assert_eq!(Resources::of_log(&log).len(), 1);
        assert!(Resources::of_log("").is_empty());
    }
}
