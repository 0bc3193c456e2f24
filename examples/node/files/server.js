// Serves the folder src on a port of its own, for the tests.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';

const types = { '.html': 'text/html', '.js': 'text/javascript' };

createServer(async (request, response) => {
  const path = normalize(new URL(request.url, 'http://x').pathname);
  const file = join('src', path === '/' ? 'index.html' : path);
  try {
    const body = await readFile(file);
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'text/plain' }).end(body);
  } catch {
    response.writeHead(404).end('not found');
  }
}).listen(4173, '127.0.0.1');
