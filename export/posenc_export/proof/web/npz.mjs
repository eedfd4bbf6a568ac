// Reads .npz files, in a browser and under Node.js: zips of .npy files, stored or deflated, that anybody may have made.
//
// Nothing is unpacked beyond the bytes that its reader expects: a file of 3 MB may claim to unpack to 3 GiB.

const END = 0x06054b50; // the signatures of a zip's parts
const ENTRY = 0x02014b50;
const LOCAL = 0x04034b50;
const END_BYTES = 22;
const MAX_COMMENT = 0xffff;
const WIDE = 0xffffffff; // a size that stands elsewhere: in files of 4 GiB
const ENCRYPTED = 0x1;
const UTF8 = 0x800;

// Opens the bytes of a file (an ArrayBuffer or a Uint8Array); throws an Error, in one line, where it is no whole zip.
export function openNpz(source, name = "the file") {
  const bytes = source instanceof Uint8Array ? source : new Uint8Array(source);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries = guarded(name, () => entriesOf(bytes, view));
  return {
    names: [...entries.keys()],
    has: (key) => entries.has(`${key}.npy`),
    // Returns the bytes of an array's .npy file; throws an Error where they are more than `most`.
    read: (key, most) => guarded(`${name}: ${key}`, () => unpacked(bytes, view, entries.get(`${key}.npy`), most)),
  };
}

function guarded(name, work) {
  const said = (error) => new Error(`${name} is damaged: ${error.message}`);
  try {
    const result = work();
    return result instanceof Promise ? result.catch((error) => Promise.reject(said(error))) : result;
  } catch (error) {
    throw said(error);
  }
}

// Returns the entries of the directory, at the end of the file, by name; of two with one name the last.
function entriesOf(bytes, view) {
  const end = endOf(view);
  const count = view.getUint16(end + 10, true);
  const entries = new Map();
  let at = view.getUint32(end + 16, true);
  for (let i = 0; i < count; i++) {
    if (view.getUint32(at, true) !== ENTRY) throw new Error("its directory is not where it says");
    const [nameBytes, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const flags = view.getUint16(at + 8, true);
    const text = new TextDecoder(flags & UTF8 ? "utf-8" : "latin1");
    entries.set(text.decode(bytes.subarray(at + 46, at + 46 + nameBytes)), {
      flags,
      method: view.getUint16(at + 10, true),
      crc: view.getUint32(at + 16, true),
      packed: view.getUint32(at + 20, true),
      size: view.getUint32(at + 24, true),
      local: view.getUint32(at + 42, true),
    });
    at += 46 + nameBytes + extra + comment;
  }
  return entries;
}

function endOf(view) {
  const last = view.byteLength - END_BYTES;
  for (let at = last; at >= Math.max(0, last - MAX_COMMENT); at--) {
    if (view.getUint32(at, true) === END) return at;
  }
  throw new Error("it is no zip");
}

async function unpacked(bytes, view, entry, most) {
  if (!entry) throw new Error("it is not there");
  const { flags, method, packed, size, local } = entry;
  if (flags & ENCRYPTED) throw new Error("it is encrypted");
  if (packed === WIDE || size === WIDE) throw new Error("it has 4 GiB or more");
  if (size > most) throw new Error(`it has ${size} bytes, expected at most ${most}`);
  if (view.getUint32(local, true) !== LOCAL) throw new Error("it is not where its directory says");
  const begin = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
  if (begin + packed > bytes.length) throw new Error("it is cut short");
  const data = bytes.subarray(begin, begin + packed);
  if (method !== 0 && method !== 8) throw new Error(`it is compressed by method ${method}`);
  const whole = method === 0 ? data : await inflated(data, size);
  if (whole.length !== size || crc32(whole) !== entry.crc) throw new Error("its bytes are not those that were written");
  return whole;
}

// Inflates to `size` bytes; ends as soon as there are more.
async function inflated(data, size) {
  const whole = new Uint8Array(size);
  const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  let length = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (length + part.value.length > size) {
      await reader.cancel();
      throw new Error(`it unpacks to more than ${size} bytes`);
    }
    whole.set(part.value, length);
    length += part.value.length;
  }
  return whole.subarray(0, length);
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return ~crc >>> 0;
}
