// The JavaScript SDKs against the door: prints one JSON object with what it saw.
import { createRequire } from 'node:module'

const require = createRequire(process.argv[2] + '/')
const { Sandbox } = require('e2b')
const { Sandbox: Interpreter } = require('@e2b/code-interpreter')
const seen = {}

const box = await Sandbox.create({ timeoutMs: 120_000, metadata: { from: 'js' }, envs: { A: '1' } })
seen.run = await box.commands.run('echo $A; echo err >&2').then((done) => [done.stdout, done.stderr, done.exitCode])
seen.exit = await box.commands.run('exit 3').catch((error) => error.exitCode)
await box.files.write('a b/x.txt', 'hello')
await box.files.write([{ path: 'm1', data: '1' }, { path: 'm2', data: new Blob(['22']) }])
seen.read = [await box.files.read('a b/x.txt'), await box.files.read('m2')]
seen.missing = await box.files.read('none').catch((error) => error.name)
seen.listed = (await box.files.list('.')).map((entry) => [entry.name, entry.type])
await box.files.makeDir('d/e')
await box.files.rename('m1', 'd/e/m')
seen.exists = [await box.files.exists('m1'), await box.files.exists('d/e/m')]
await box.files.remove('d')

const events = []
const watch = await box.files.watchDir('.', (event) => events.push(event.name))
await box.files.write('watched', 'x')
const patience = async (condition) => {
  for (let left = 600; left > 0 && !condition(); left--) await new Promise((done) => setTimeout(done, 50))
  return condition()
}
seen.watched = await patience(() => events.includes('watched'))
await watch.stop()

let terminal = ''
const pty = await box.pty.create({ rows: 30, cols: 100, onData: (data) => { terminal += new TextDecoder().decode(data) } })
await box.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; exit\n'))
await pty.wait().catch(() => {})
seen.terminal = terminal.includes('30 100')

const back = await box.commands.run('read x; echo got $x; sleep 300', { background: true, stdin: true })
await box.commands.sendStdin(back.pid, 'abc\n')
seen.answered = await patience(() => back.stdout === 'got abc\n')
seen.listedProcesses = (await box.commands.list()).map((one) => one.pid === back.pid)
seen.killed = [await back.kill(), await box.commands.kill(back.pid)]
seen.again = (await (await Sandbox.connect(box.sandboxId)).commands.run('echo again')).stdout
seen.infos = (await Sandbox.list({ query: { metadata: { from: 'js' } } }).nextItems()).map((one) => one.sandboxId === box.sandboxId)
seen.root = await box.commands.run('id', { user: 'root' }).catch((error) => error.name)
seen.ended = [await box.kill(), await box.isRunning()]

const interpreter = await Interpreter.create()
const run = await interpreter.runCode("x = 20\nprint('hello')\nx + 1")
seen.code = [run.logs.stdout, run.text, (await interpreter.runCode('x')).text, (await interpreter.runCode('1/0')).error.name]
await interpreter.kill()
console.log(JSON.stringify(seen))
