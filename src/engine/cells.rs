//! Which cell of a KV cache holds which token: the bookkeeping of `llama_kv_cache` (llama-kv-cache.cpp), so that scores
//! have llama.cpp's shape and every key stands in llama.cpp's place.

use std::collections::BTreeSet;

/// llama.cpp rounds the number of cells that attention reads up to this (`llama_kv_cache::get_n_kv`); the cells beyond
/// the tokens are masked. It matters for the shapes of `kq` and `kq_soft_max` only.
const KV_CELLS: usize = 256;

/// A token in a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cell {
    position: i64,
    /// The sequences that it belongs to; never empty.
    sequences: BTreeSet<i32>,
}

/// The cells of one stream.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    cells: Vec<Option<Cell>>,
    /// Where the search for free cells begins.
    head: usize,
}

impl Cells {
    pub(super) fn new(size: usize) -> Cells {
        Cells { cells: vec![None; size], head: 0 }
    }

    /// Free cells for as many tokens, in the order in which `find_slot` takes them. None if there are not enough.
    pub(super) fn find(&self, n_tokens: usize) -> Option<Vec<usize>> {
        let size = self.cells.len();
        let start = if self.head > self.used() + 2 * n_tokens { 0 } else { self.head };
        let around = (start..size).chain(0..start.min(size));
        let free: Vec<usize> = around.filter(|&at| self.cells[at].is_none()).take(n_tokens).collect();
        (free.len() == n_tokens).then_some(free)
    }

    /// Puts tokens into cells that [`Cells::find`] gave.
    pub(super) fn put(&mut self, at: &[usize], tokens: impl Iterator<Item = (i32, i64)>) {
        for (&at, (sequence, position)) in at.iter().zip(tokens) {
            self.cells[at] = Some(Cell { position, sequences: [sequence].into() });
        }
        self.head = at.last().map_or(self.head, |last| last + 1);
    }

    /// Takes a sequence out of its cells from a position on; a cell that is left to none is free.
    pub(super) fn remove(&mut self, sequence: i32, from: i64) {
        let mut first_freed = None;
        for (at, slot) in self.cells.iter_mut().enumerate() {
            let Some(cell) = slot.as_mut().filter(|cell| cell.position >= from) else { continue };
            if cell.sequences.remove(&sequence) && cell.sequences.is_empty() {
                *slot = None;
                first_freed = first_freed.or(Some(at));
            }
        }
        self.head = self.head.min(first_freed.unwrap_or(self.head));
    }

    /// Makes the cells of a sequence another one's too.
    pub(super) fn share(&mut self, from: i32, to: i32) {
        for cell in self.cells.iter_mut().flatten() {
            if cell.sequences.contains(&from) {
                cell.sequences.insert(to);
            }
        }
    }

    /// The same cells, as another sequence's alone: the ones that `from` is in.
    pub(super) fn copied(&self, from: i32, to: i32) -> Cells {
        let copy = |cell: &Option<Cell>| {
            cell.as_ref()
                .filter(|cell| cell.sequences.contains(&from))
                .map(|cell| Cell { position: cell.position, sequences: [to].into() })
        };
        Cells { cells: self.cells.iter().map(copy).collect(), head: self.head }
    }

    /// The cells of a sequence in the order of their positions.
    pub(super) fn of(&self, sequence: i32) -> Vec<usize> {
        let holds = |cell: &&(usize, &Cell)| cell.1.sequences.contains(&sequence);
        let cells = self.cells.iter().enumerate().filter_map(|(at, cell)| Some((at, cell.as_ref()?)));
        let mut own: Vec<(usize, &Cell)> = cells.filter(|cell| holds(&cell)).collect();
        own.sort_by_key(|(_, cell)| cell.position);
        own.into_iter().map(|(at, _)| at).collect()
    }

    /// The cells that a token reads, in their own order: those of its sequence up to its position.
    pub(super) fn seen_by(&self, sequence: i32, position: i64) -> Vec<usize> {
        let sees = |cell: &Cell| cell.position <= position && cell.sequences.contains(&sequence);
        let seen = |(at, cell): (usize, &Option<Cell>)| cell.as_ref().is_some_and(sees).then_some(at);
        self.cells.iter().enumerate().filter_map(seen).collect()
    }

    /// How many cells hold a token.
    pub(super) fn used(&self) -> usize {
        self.cells.iter().flatten().count()
    }

    /// How many cells attention reads.
    pub(super) fn n_kv(&self) -> usize {
        let end = self.cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        end.next_multiple_of(KV_CELLS).max(KV_CELLS).min(self.cells.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(size: usize, tokens: &[(i32, i64)]) -> Cells {
        let mut cells = Cells::new(size);
        let at = cells.find(tokens.len()).unwrap();
        cells.put(&at, tokens.iter().copied());
        cells
    }

    #[test]
    fn a_freed_cell_is_taken_again() {
        let mut cells = filled(5, &[(0, 0), (0, 1), (0, 2)]);
        assert_eq!(cells.find(3), None);
        cells.remove(0, 1);
        assert_eq!(cells.find(3), Some(vec![1, 2, 3]));
        cells.put(&[1], [(0, 1)].into_iter());
        assert_eq!((cells.of(0), cells.seen_by(0, 0)), (vec![0, 1], vec![0]));
    }

    #[test]
    fn the_search_goes_around_and_starts_over_far_behind_the_tokens() {
        let mut cells = filled(8, &[(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
        cells.remove(1, 0); // the head goes back to the first freed cell
        assert_eq!(cells.find(2), Some(vec![1, 7]));
        let mut cells = filled(9, &[(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
        cells.head = 6;
        cells.cells[1..6].fill(None);
        assert_eq!(cells.find(2), Some(vec![1, 2])); // 6 > 1 used + 2 * 2
        assert_eq!(cells.find(3), Some(vec![6, 7, 8]));
    }

    #[test]
    fn sequences_see_their_own_cells() {
        let mut cells = filled(600, &[(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!((cells.seen_by(1, 0), cells.seen_by(1, 9)), (vec![1], vec![1, 3]));
        cells.share(1, 2);
        cells.remove(1, 0);
        assert_eq!((cells.of(1), cells.of(2)), (vec![], vec![1, 3]));
        assert_eq!(cells.copied(2, 7).of(7), [1, 3]);
        assert_eq!(cells.copied(2, 7).of(0), Vec::<usize>::new());
    }

    #[test]
    fn attention_reads_whole_multiples() {
        assert_eq!([1, 300].map(|size| filled(size, &[(0, 0)]).n_kv()), [1, 256]);
        let many: Vec<(i32, i64)> = (0..257).map(|position| (0, position)).collect();
        assert_eq!([300, 600].map(|size| filled(size, &many).n_kv()), [300, 512]);
    }
}
