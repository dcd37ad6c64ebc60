//! Whether the engine can follow a build of ggml-cpu to the bit.

use crate::arithmetic::Isa;
use crate::engine::{Conventions, EngineError, Numerics};
use crate::model::Model;

/// Checks that the arithmetic is the build's, and that every operation has an order in it.
///
/// # Errors
/// If the engine's arithmetic is another build's, or its own; if a weight is of a type that llama.cpp does not multiply, or is folded; if a
/// convention is not llama.cpp's.
pub(super) fn check(
    model: &Model,
    conventions: &Conventions,
    numerics: Numerics,
    isa: Option<Isa>,
) -> Result<(), EngineError> {
    let Some(ggml) = numerics.ggml else {
        return match isa {
            None => Ok(()),
            Some(isa) => refused(format!("arithmetic of ggml-cpu {isa}, and no build that is followed")),
        };
    };
    if isa != Some(ggml.isa) {
        return refused(format!("the build that is followed has the arithmetic of ggml-cpu {}", ggml.isa));
    }
    if model.fold().is_some() {
        return refused("a folded model, which llama.cpp does not run: run its unfolded twin".to_owned());
    }
    if *conventions != (Conventions { qk_l2_norm: conventions.qk_l2_norm, ..Conventions::default() }) {
        return refused(
            "a convention that llama.cpp does not have, and so no order of operations for".to_owned(),
        );
    }
    for name in model.multiplied_names() {
        let matrix = model.matrix(name)?;
        if !matrix.is_multiplied_by(ggml) {
            let repacked = if ggml.repack { ", repacked" } else { "" };
            return refused(format!("{name} of type {}{repacked}", matrix.ty()));
        }
    }
    Ok(())
}

fn refused(what: String) -> Result<(), EngineError> {
    Err(EngineError::NotFollowed { what })
}
