import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const OUT = '../server/src/holdfast/web/static'
const COMPRESSED = /\.(js|css|svg|html)$/

/** Leaves each text file beside itself, compressed: the service never compresses while it serves. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      const visit = (folder: string): void => {
        for (const name of readdirSync(folder)) {
          const path = join(folder, name)
          if (statSync(path).isDirectory()) visit(path)
          else if (COMPRESSED.test(name) && name !== 'index.html') {
            const body = readFileSync(path)
            writeFileSync(`${path}.gz`, gzipSync(body, { level: 9 }))
            writeFileSync(`${path}.br`, brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }))
          }
        }
      }
      visit(OUT)
    },
  }
}

/** What every page needs comes in two files, not in a dozen: each request costs more than the bytes. */
const TOGETHER = [
  {
    name: 'libraries',
    test: /node_modules\/(react|react-dom|scheduler|openapi-fetch|@tanstack\/(?!react-virtual|virtual))/,
  },
  { name: 'common', test: /src\/(api|layout|lib|ui)\// },
]

export default defineConfig({
  plugins: [react(), compressed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    manifest: 'manifest.json',
    rolldownOptions: { output: { codeSplitting: { groups: TOGETHER } } },
  },
  server: {
    port: 5173,
    proxy: { '/api': 'http://127.0.0.1:8080', '/health': 'http://127.0.0.1:8080', '/agent': 'http://127.0.0.1:8080' },
  },
})
