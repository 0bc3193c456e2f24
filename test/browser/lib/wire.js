import net from 'node:net';

/** wire leads to a server, and can be cut and mended, as networks are. */
export async function wire(to) {
  const { hostname, port } = new URL(to);
  const open = new Set();
  let whole = true;
  const server = net.createServer((near) => {
    if (!whole) return near.destroy();
    const far = net.connect(Number(port), hostname);
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a);
      a.on('error', () => b.destroy());
      a.on('close', () => {
        open.delete(a);
        b.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    cut() {
      whole = false;
      for (const s of open) s.destroy();
    },
    mend() {
      whole = true;
    },
    close() {
      this.cut();
      server.close();
    },
  };
}
