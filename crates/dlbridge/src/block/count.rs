//! The count of the handles on a block, for [`ArcTensor`](crate::ArcTensor).

use core::sync::atomic::Ordering;

use super::Managed;

/// Above this count a further handle is refused. The rest of the range is left for threads that count up before they
/// compare.
const MOST: u32 = u32::MAX / 2;

impl Managed {
    /// Counts a further handle on the block.
    #[inline]
    pub(crate) fn count_up(&self) {
        // As for `Arc`: a handle is passed to another thread by other means, which order the accesses to the data.
        let before = self.header().count.fetch_add(1, Ordering::Relaxed);
        if before >= MOST {
            self.refuse();
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self) -> ! {
        self.header().count.fetch_sub(1, Ordering::Relaxed);
        panic!("more than {MOST} handles share a tensor");
    }

    /// Counts a handle down. Returns true if it was the last: then all uses of the others happened before, and the
    /// count is not read again.
    #[inline]
    pub(crate) fn count_down(&self) -> bool {
        // A sole handle needs no read-modify-write: no other thread has one to count with.
        if self.is_sole() {
            return true;
        }
        let count = &self.header().count;
        // The load, which belongs to the release sequence of the other handles, acquires what they did. A fence would
        // do the same, but ThreadSanitizer does not know fences.
        count.fetch_sub(1, Ordering::Release) == 1 && count.load(Ordering::Acquire) == 0
    }

    /// Returns true if no other handle exists; then all uses of the others happened before.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        self.header().count.load(Ordering::Acquire) == 1
    }
}
