const count = document.querySelector('#count');

document.querySelector('#more').addEventListener('click', () => {
  count.value = String(Number(count.value) + 1);
});
