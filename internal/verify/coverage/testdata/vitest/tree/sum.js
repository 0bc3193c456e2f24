// adds numbers
function add(a, b) {
  return a + b;
}

function sub(a, b) {
  if (a < b) {
    return 0;
  }
  return a - b;
}

export { add, sub };
