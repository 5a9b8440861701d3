const told = 'IFSPO-42';
const plain = [...told].map((sign) =>
  /[A-Z]/.test(sign) ? String.fromCharCode(((sign.charCodeAt(0) - 65 + 25) % 26) + 65) : sign,
);
document.getElementById('notice').textContent = `Today's code is ${plain.join('')}.`;
