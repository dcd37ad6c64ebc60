//! Operators on stacks of matrices: the last two extents of a tensor are rows and columns, those in front of them number its matrices.

use super::super::{Pass, Tensor};
use crate::engine::EngineError;
use crate::engine::gpu::launch::{self, Matrices};
use crate::engine::gpu::{Device, GpuError, PartMut};

/// An operator of two stacks, element by element: one of `launch::{add_matrices, sub_matrices, mul_matrices}`.
type OfTwo = fn(&Device, PartMut<'_, f32>, Matrices<'_>, Matrices<'_>) -> Result<(), GpuError>;

impl Tensor {
    /// All matrices.
    pub(super) fn matrices(&self) -> Matrices<'_> {
        let [rows, columns] = self.extents();
        Matrices::packed(self.all(), [self.len() / (rows * columns), rows, columns])
    }

    /// Of `[stack, n_chunks, rows, columns]` the matrices of one chunk.
    pub(super) fn of_chunk(&self, chunk: usize) -> Matrices<'_> {
        let [rows, columns] = self.extents();
        let [stack, n_chunks] = [self.shape[0], self.shape[1]];
        let size = rows * columns;
        let values = self.part(chunk * size..self.len());
        Matrices::strided(values, [stack, rows, columns], [n_chunks * size, columns, 1])
    }

    fn extents(&self) -> [usize; 2] {
        let &[.., rows, columns] = &self.shape[..] else { unreachable!("it has rows and columns") };
        [rows, columns]
    }
}

impl Pass<'_, '_, '_> {
    pub(super) fn of_two(
        &self,
        launch: OfTwo,
        a: Matrices<'_>,
        b: Matrices<'_>,
    ) -> Result<Tensor, EngineError> {
        let mut y = self.tensor(&a.joint_shape(&b))?;
        launch(self.device, y.all_mut(), a, b)?;
        Ok(y)
    }

    /// Of each pair of matrices the products of the rows of `b` with those of `a`.
    pub(super) fn rows_meet(&self, a: Matrices<'_>, b: Matrices<'_>) -> Result<Tensor, EngineError> {
        let ([n, columns, _], [_, rows, _]) = (a.shape(), b.shape());
        let mut y = self.tensor(&[n, rows, columns])?;
        launch::products(self.device, y.all_mut(), a, b)?;
        Ok(y)
    }

    /// The matrices one after the other.
    pub(super) fn cont(&self, x: Matrices<'_>) -> Result<Tensor, EngineError> {
        let shape @ [_, rows, _] = x.shape();
        let mut y = self.tensor(&shape)?;
        launch::cont(self.device, y.all_mut(), x, rows)?;
        Ok(y)
    }

    pub(super) fn exp(&self, x: &Tensor) -> Result<Tensor, EngineError> {
        let mut y = self.tensor(&x.shape)?;
        launch::exp(self.device, y.all_mut(), x.all())?;
        Ok(y)
    }

    pub(super) fn scaled(&self, x: &Tensor, by: f32) -> Result<Tensor, EngineError> {
        let mut y = self.tensor(&x.shape)?;
        launch::scale(self.device, y.all_mut(), x.all(), by)?;
        Ok(y)
    }

    /// What is below the diagonal, with `diagonal` what is on it too; the rest is 0.
    pub(super) fn tri(&self, x: &Tensor, diagonal: bool) -> Result<Tensor, EngineError> {
        let mut y = self.tensor(&x.shape)?;
        let [size, _] = x.extents();
        launch::tri(self.device, y.all_mut(), x.all(), size, diagonal)?;
        Ok(y)
    }
}
