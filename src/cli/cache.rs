//! Where made and fetched models lie: `$LOCKSTEP_CACHE`, else `$HOME/.cache/lockstep`, else the system's folder for temporary files.

use std::env;
use std::path::PathBuf;

/// The folder.
pub(super) fn root() -> PathBuf {
    match (env::var_os("LOCKSTEP_CACHE"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".cache").join("lockstep"),
        _ => env::temp_dir().join("lockstep"),
    }
}
