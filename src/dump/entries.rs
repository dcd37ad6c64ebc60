//! Checks the `.npy` entries of a file against the nodes and leaves that name them.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use super::MANIFEST;
use super::archive::Archive;
use super::error::Defect;
use super::manifest::{Leaf, Manifest, Node};
use super::npy::{self, Header, payload_bytes};
use crate::tensor::GgmlType;

/// A tensor that names an entry.
struct User {
    label: String,
    ty: GgmlType,
    ne: [u64; 4],
}

/// The header bytes of each entry, by name of the entry without `.npy`.
pub(super) type HeaderBytes = HashMap<String, usize>;

/// Checks that every entry is named and every name has an entry, and type, shape and size of each.
pub(super) fn check(manifest: &Manifest, archive: &Archive) -> Result<HeaderBytes, Defect> {
    let users = users(manifest, archive)?;
    let mut headers = HashMap::with_capacity(archive.entries.len());
    let mut reader = npy::Reader::default();
    for entry in archive.entries.iter().filter(|entry| entry.name != MANIFEST) {
        let extra = || Defect::ExtraEntry { entry: entry.name.clone() };
        let name = entry.name.strip_suffix(".npy").ok_or_else(extra)?;
        let users = users.get(name).ok_or_else(extra)?;
        let bytes = archive.peek(entry);
        let header = reader.read(name, entry.start, bytes)?;
        check_size(name, header, bytes.len() as u64)?;
        check_users(name, header, users)?;
        headers.insert(name.to_owned(), header.bytes);
    }
    Ok(headers)
}

/// The tensors that name each entry.
fn users<'a>(manifest: &'a Manifest, archive: &Archive) -> Result<HashMap<&'a str, Vec<User>>, Defect> {
    let mut users: HashMap<&str, Vec<User>> = HashMap::with_capacity(archive.entries.len());
    let node = |node: &'a Node| node.entry.as_deref().map(|entry| (entry, node.label(), node.ty, node.ne));
    let leaf = |leaf: &'a Leaf| leaf.entry.as_deref().map(|entry| (entry, leaf.label(), leaf.ty, leaf.ne));
    let named = manifest.nodes.iter().filter_map(node).chain(manifest.leaves.iter().filter_map(leaf));
    for (entry, label, ty, ne) in named {
        if archive.find(&format!("{entry}.npy")).is_none() {
            return Err(Defect::MissingEntry { item: label, entry: entry.to_owned() });
        }
        users.entry(entry).or_default().push(User { label, ty, ne });
    }
    Ok(users)
}

fn check_size(entry: &str, header: &Header, bytes: u64) -> Result<(), Defect> {
    let (expected, got) = (header.payload_bytes, bytes.saturating_sub(header.bytes as u64));
    let entry = entry.to_owned();
    match got.cmp(&expected) {
        std::cmp::Ordering::Less => Err(Defect::ShortPayload { entry, expected, got }),
        std::cmp::Ordering::Greater => Err(Defect::TrailingBytes { entry, expected, got }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Type and size must fit every tensor that names the entry; the shape is that of one of them.
fn check_users(entry: &str, header: &Header, users: &[User]) -> Result<(), Defect> {
    let entry = || entry.to_owned();
    let mut wanted = None;
    let mut shape_fits = false;
    for user in users {
        let item = || user.label.clone();
        let expected = npy::descr(user.ty);
        if header.descr != expected {
            return Err(Defect::Dtype { entry: entry(), item: item(), expected, got: header.descr.clone() });
        }
        let expected = payload_bytes(user.ty, user.ne).unwrap_or(u64::MAX);
        if header.payload_bytes != expected {
            let got = header.payload_bytes;
            return Err(Defect::PayloadSize { entry: entry(), item: item(), expected, got });
        }
        let shape = npy::shape(user.ty, user.ne).unwrap_or_default();
        shape_fits |= header.shape == shape;
        wanted.get_or_insert((user, shape));
    }
    match wanted {
        Some((user, expected)) if !shape_fits => {
            let (item, got) = (user.label.clone(), header.shape.clone());
            Err(Defect::Shape { entry: entry(), item, expected, got })
        }
        _ => Ok(()),
    }
}
