/** The shortest time between two pieces of the same work, in milliseconds. */
const PAUSE_MS = 300;

/**
 * Returns what does `work` when it is called: at once, but never twice at the same time. Calls meanwhile come to one more time.
 */
export function paced(work: () => Promise<unknown>): () => void {
  let isBusy = false;
  let isWanted = false;
  const run = async () => {
    if (isBusy) {
      isWanted = true;
      return;
    }
    isBusy = true;
    const began = performance.now();
    await work();
    // Work that takes long is done less often.
    const pause = Math.max(PAUSE_MS, (performance.now() - began) * 3);
    setTimeout(() => {
      isBusy = false;
      if (isWanted) {
        isWanted = false;
        void run();
      }
    }, pause);
  };
  return () => void run();
}
