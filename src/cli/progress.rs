//! Progress on stderr; nothing where stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar with a title; counts in the unit that the caller counts in.
pub(super) fn bar(title: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {pos}/{len} {elapsed} eta {eta}");
    let bar = ProgressBar::new(0).with_message(title.to_owned());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// The callback that moves a bar.
pub(super) fn callback(bar: &ProgressBar) -> impl FnMut(u64, u64) {
    let bar = bar.clone();
    move |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    }
}
