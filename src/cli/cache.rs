//! Where built models lie: `$LOCKSTEP_CACHE`, else `$HOME/.cache/lockstep`, else the system's folder for temporary files.

use std::env;
use std::path::PathBuf;

/// The folder for built models.
pub(super) fn models() -> PathBuf {
    let root = match (env::var_os("LOCKSTEP_CACHE"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".cache").join("lockstep"),
        _ => env::temp_dir().join("lockstep"),
    };
    root.join("models")
}
